"""Runs as a queue of folders, and the processes that train them."""
