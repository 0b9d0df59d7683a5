"""One run: what it is asked to do, the loop that trains it, its hooks, and what it leaves on the disk."""
