"""The parts of the site that are generated from the code while the documentation is built."""
