"""The logs of runs, read back."""
