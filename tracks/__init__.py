"""Supervised work on the same interventions and metrics as the agents'."""
