"""Instruments to hold against a running model: taps that show, print, assert and stop."""

from nbdebug.taps.expectations import ExpectationFailed
from nbdebug.taps.tap import Tap, tap

__all__ = ["ExpectationFailed", "Tap", "tap"]
