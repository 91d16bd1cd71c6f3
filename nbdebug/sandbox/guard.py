"""Restore all global state that an experiment could change, however the experiment ends.

The order matters: each undo is written down before its change is made, the first interrupt only sets a flag that
experiments poll, and the undo list is worked off with interrupts held back.
"""

from __future__ import annotations

import random
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import torch

from nbdebug.core.control import Control
from nbdebug.core.torch_compat import restores_call_hooks
from nbdebug.sandbox.autocast import leave_autocast, restores_autocast
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup.distributed.alone import stand_alone
from nbdebug.setup.object_graph import generators_in
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["Guard", "guarded", "interrupts_held"]

T = TypeVar("T")


class Guard:
    """The undo list of one experiment, and the handler that keeps Ctrl-C from landing in the middle of it."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self._undo: list[Callable[[], Any]] = []
        self.is_closing = False

    def close(self) -> None:
        """Work the undo list off, newest first; safe to call again after an interrupt in the middle."""
        self.is_closing = True
        while self._undo:
            try:
                self._undo[-1]()
            except Exception as error:  # one that fails must not keep the others from being done
                warnings.warn(f"nbdebug could not restore an object: {error!r}", RuntimeWarning, stacklevel=2)
            self._undo.pop()  # only after it has run: an undo is harmless when it runs twice

    def on_close(self, undo: Callable[[], Any]) -> None:
        """Write down what has to be done in the end; called before the change that it undoes."""
        self._undo.append(undo)

    def hold_interrupts(self) -> None:
        """Let the first Ctrl-C set a flag, and the second raise at once; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        before = signal.getsignal(signal.SIGINT)
        if before is None:
            return  # a handler that Python did not install cannot be restored by it

        def handler(number: int, frame: FrameType | None) -> None:
            again = self.control.interrupted.is_set()
            (self.control.insisted if again else self.control.interrupted).set()
            if again and not self.is_closing:
                self.is_closing = True
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
        anomaly, nan = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
        precision, errors = torch.get_float32_matmul_precision(), np.geterr()
        filters = list(warnings.filters)
        self._undo.extend(
            [
                _if_changed(torch.get_num_threads, torch.set_num_threads),
                _if_changed(torch.get_default_device, torch.set_default_device),
                lambda: torch.set_default_dtype(dtype),
                _if_changed(_determinism, _set_determinism),
                lambda: torch.autograd.set_detect_anomaly(anomaly, nan) and None,
                lambda: torch.set_grad_enabled(grad) and None,
                lambda: torch.set_float32_matmul_precision(precision),
                lambda: np.seterr(**errors),
                lambda: _set_filters(filters),
            ]
        )
        self._undo.extend([*restores_autocast(), *restores_call_hooks()])


@contextmanager
def interrupts_held(control: Control) -> Iterator[None]:
    """Let Ctrl-C set a flag for the whole of a run, so that it cannot land between two experiments."""
    guard = Guard(control)
    try:
        guard.hold_interrupts()
        yield
    finally:
        close_for_sure(guard)


def guarded(
    experiment: Callable[[], T],
    live: tuple[Any, ...],
    control: Control,
    *,
    seed: int = 0,
    snapshot: StateSnapshot | None = None,
) -> T:
    """Run an experiment with its own seed and gradients on, and leave everything global as it was.

    `live` are the user's objects whose generators must not move on. What the snapshot saw is restored, too.
    """
    guard = Guard(control)
    try:
        guard.hold_interrupts()
        # Generators first, so that they are restored last: other undos may draw from them.
        guard.save_generators(*(live if snapshot is None else snapshot.generators))
        guard.save_flags()
        stand_alone(guard.on_close)
        if snapshot is not None and threading.current_thread() is threading.main_thread():
            # In a worker thread the user's own training may run at the same time: what it changes is not ours.
            guard.on_close(snapshot.restore)
        # Both only set the state of this thread; a block of the user's inside of them replaces and restores it.
        with torch.inference_mode(False), torch.enable_grad():
            leave_autocast()
            seed_all(seed)
            warnings.simplefilter("ignore")  # what an experiment does on purpose needs no warning
            control.poll()
            result = experiment()
        guard.is_closing = True
    finally:
        guard.is_closing = True
        close_for_sure(guard)
    if control.interrupted.is_set():
        raise KeyboardInterrupt
    return result


def close_for_sure(guard: Guard) -> None:
    """Work the undo list off to its end, whatever interrupts it."""
    while True:
        try:
            guard.close()
            return
        except KeyboardInterrupt:
            continue


def _setter(owner: Any, name: str, value: Any) -> Callable[[], None]:
    def undo() -> None:
        if getattr(owner, name) != value:
            setattr(owner, name, value)

    return undo


def _if_changed(get: Callable[[], Any], put: Callable[[Any], Any]) -> Callable[[], None]:
    """Put a setting back only where it is another now, because setting it has a price or a side effect."""
    before = get()

    def undo() -> None:
        if get() != before:
            put(before)

    return undo


def _determinism() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_determinism(before: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])  # it imports the whole compiler: seconds


def _set_filters(filters: list[Any]) -> None:
    if list(warnings.filters) != filters:
        warnings.filters[:] = filters  # type: ignore[index]
        getattr(warnings, "_filters_mutated", lambda: None)()  # or Python would go on with its cache
