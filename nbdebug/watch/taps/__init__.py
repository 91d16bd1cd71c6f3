"""Instruments to hold against a running model: taps that show, print, assert and stop."""

from nbdebug.watch.taps.expectations import ExpectationFailed
from nbdebug.watch.taps.tap import Tap, tap

__all__ = ["ExpectationFailed", "Tap", "tap"]
