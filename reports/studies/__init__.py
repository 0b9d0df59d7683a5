"""What reports of all kinds of runs share: contents, cells, and runs side by side."""
