"""Images: continual benchmarks, warm starts, class-incremental learning, shocks."""
