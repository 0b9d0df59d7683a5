"""What the commands share: options, the console, plans, progress."""
