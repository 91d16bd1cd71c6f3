"""Instruments to hold against a running model: taps that show, print, assert and stop."""

from nbdebug.instruments.expectations import ExpectationFailed
from nbdebug.instruments.tap import Tap, tap

__all__ = ["ExpectationFailed", "Tap", "tap"]
