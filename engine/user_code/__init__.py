"""Code of users: plug-ins, networks in files of their own, and whose fault an exception is."""
