"""Sweeps of studies: files, points, the search for hyperparameters, suites, and who trains the runs."""
