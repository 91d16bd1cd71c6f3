"""Measurements that take longer than tests: run them from the root of the project with `python -m`."""
