"""Continual learning: a list of tasks, one after the other, with adapters or without (the MoRAM paper)."""
