"""What all tests share."""

from __future__ import annotations

import math
import random
import signal
import tempfile
from collections.abc import Iterator

import numpy
import pytest
import torch

import nbdebug.core.control


def _same_draws() -> None:
    """Start every global generator anew, so that a test draws the same whichever tests ran before it, and where."""
    random.seed(0)
    numpy.random.seed(0)  # noqa: NPY002 - the old global generator is the one that other code draws from
    torch.manual_seed(0)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Return the values that a test module draws while it is imported the same start."""
    _same_draws()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Return the fixtures of a test the same start."""
    _same_draws()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Return a test the same start, whether or not it is the first to need a shared fixture."""
    _same_draws()


@pytest.fixture(scope="session", autouse=True)
def _private_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make temporary files where nobody else makes any, because some tests look whether any are left behind."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = before


@pytest.fixture(scope="session", autouse=True)
def _no_limit_by_default() -> Iterator[None]:
    """Take the default time limit away: what a test sees may not depend on how busy the machine is."""
    before, nbdebug.core.control.INTERACTIVE = nbdebug.core.control.INTERACTIVE, math.inf
    yield
    nbdebug.core.control.INTERACTIVE = before


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt: a shell makes what it starts in the background ignore it."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
