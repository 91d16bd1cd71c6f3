"""Tests of `bisect` and `diff_setups`."""
