"""Put back everything global that an experiment could disturb, whatever ends the experiment.

The order matters: each undo is written down before its change is made, the first interrupt only sets a flag that
experiments poll, and the undo list is worked off with interrupts held back.
"""

from __future__ import annotations

import random
import signal
import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import torch

from nbdebug.control import Control
from nbdebug.subject import Subject
from nbdebug.subject.holdings import generators_in

__all__ = ["Guard", "guarded"]

T = TypeVar("T")


class Guard:
    """The undo list of one experiment, and the handler that keeps Ctrl-C from landing in the middle of it."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self._undo: list[Callable[[], Any]] = []
        self._closing = False

    def close(self) -> None:
        """Work the undo list off, newest first; safe to call again after an interrupt in the middle."""
        self._closing = True
        while self._undo:
            self._undo[-1]()  # the entry goes only after it has run: an undo is harmless when it runs twice
            self._undo.pop()

    def hold_interrupts(self) -> None:
        """Let the first Ctrl-C set a flag, and the second raise at once; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if before is None:
            return  # a handler that Python did not install cannot be put back by it

        def handler(number: int, frame: FrameType | None) -> None:
            again = self.control.interrupted.is_set()
            self.control.interrupted.set()
            if again and not self._closing:
                self._closing = True
                raise KeyboardInterrupt

        self._undo.append(lambda: signal.signal(signal.SIGINT, before))
        signal.signal(signal.SIGINT, handler)

    def save_generators(self, *live: Any) -> None:
        """Write down the state of every random generator: the global ones, and those that the user's things hold."""
        for generator in generators_in(*live):
            self._save_generator(generator)
        python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
        self._undo.append(lambda: random.setstate(python))
        self._undo.append(lambda: np.random.set_state(numpy))
        self._undo.append(lambda: torch.set_rng_state(cpu))
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            devices = torch.cuda.get_rng_state_all()
            self._undo.append(lambda: torch.cuda.set_rng_state_all(devices))
        if torch.backends.mps.is_available():
            metal = torch.mps.get_rng_state()
            self._undo.append(lambda: torch.mps.set_rng_state(metal))

    def _save_generator(self, generator: Any) -> None:
        if isinstance(generator, torch.Generator):
            state = generator.get_state()
            self._undo.append(lambda: generator.set_state(state))
        elif isinstance(generator, np.random.Generator):
            before = generator.bit_generator.state
            self._undo.append(lambda: setattr(generator.bit_generator, "state", before))
        elif isinstance(generator, np.random.RandomState):
            legacy = generator.get_state()
            self._undo.append(lambda: generator.set_state(legacy))
        else:
            python = generator.getstate()
            self._undo.append(lambda: generator.setstate(python))

    def save_flags(self) -> None:
        """Write down the global switches of torch and the filters of warnings."""
        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        for owner, name in (
            (cudnn, "enabled"),
            (cudnn, "benchmark"),
            (cudnn, "deterministic"),
            (cudnn, "allow_tf32"),
            (matmul, "allow_tf32"),
        ):
            self._undo.append(_setter(owner, name, getattr(owner, name)))
        dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
        strict, warn = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        )
        anomaly, nan = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        grad, precision = torch.is_grad_enabled(), torch.get_float32_matmul_precision()
        filters = list(warnings.filters)
        self._undo.extend(
            [
                lambda: torch.set_default_dtype(dtype),
                lambda: _set_threads(threads),
                lambda: torch.use_deterministic_algorithms(strict, warn_only=warn),
                lambda: torch.autograd.set_detect_anomaly(anomaly, nan) and None,
                lambda: torch.set_grad_enabled(grad) and None,
                lambda: torch.set_float32_matmul_precision(precision),
                lambda: warnings.filters.__setitem__(slice(None), filters),  # type: ignore[index]
            ]
        )


def guarded(experiment: Callable[[], T], subject: Subject, control: Control, *, seed: int = 0) -> T:
    """Run an experiment with its own seed and gradients on, and leave everything global as it was."""
    guard = Guard(control)
    try:
        guard.hold_interrupts()
        guard.save_flags()
        guard.save_generators(*subject.live_parts())
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            _seed_everything(seed)
            control.poll()
            result = experiment()
        guard._closing = True
    except BaseException:
        guard._closing = True
        raise
    finally:
        _close_for_sure(guard)
    if control.interrupted.is_set():
        raise KeyboardInterrupt
    return result


def _close_for_sure(guard: Guard) -> None:
    while True:
        try:
            guard.close()
            return
        except KeyboardInterrupt:
            continue


def _seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _setter(owner: Any, name: str, value: Any) -> Callable[[], None]:
    def undo() -> None:
        if getattr(owner, name) != value:
            setattr(owner, name, value)

    return undo


def _set_threads(count: int) -> None:
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
