"""Tracks: supervised training with the same interventions and metrics as the agents."""
