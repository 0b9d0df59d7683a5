"""Supervised fine-tuning of causal language models: what is learned, and what is forgotten."""
