"""Pages of reports, and their files."""
