"""Continual learning on a sequence of tasks, with adapters or without (MoRAM, arXiv 2506.21035)."""
