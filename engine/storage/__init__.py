"""What runs leave on the disk: checkpoints, logs, signed JSON, and the locks on folders."""
