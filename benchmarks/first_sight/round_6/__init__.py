"""Bugs as they are asked about in forums, each with its repaired twin."""
