"""Evaluate and improve: where the error of a model that learns comes from, and what to do next."""
