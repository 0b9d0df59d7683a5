"""Comparisons of arms: one trunk for each seed, then every arm from its identical state."""
