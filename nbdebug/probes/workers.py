"""Let two worker processes read the same samples. The only probe that starts processes; it ends them all."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import Rereading, Samples, Workers
from nbdebug.registry import probe
from nbdebug.subject import Feed, Subject
from nbdebug.subject.holdings import generators_in
from nbdebug.subject.rows import digests_of

__all__ = ["workers"]

SAMPLES = 8
TIMEOUT = 20  # seconds until a worker that does not answer is given up

Digests = list[list[bytes]]


@probe
def workers(subject: Subject, samples: Samples, rereading: Rereading, control: Control) -> Workers:
    """Compare the random numbers of two DataLoader workers over two epochs."""
    loader = subject.feed.loader
    if not isinstance(loader, DataLoader) or loader.num_workers < 2:
        raise NotApplicable("the loader has fewer than two workers")
    if not rereading.random:
        raise NotApplicable("loading a sample again returns the same values in every worker")
    if subject.device.type == "cuda" and loader.multiprocessing_context is None:
        raise NotApplicable("worker processes are not started while a GPU is in use")
    indices = list(samples.train.indices[:SAMPLES])
    copied = Feed(loader, "loader")
    torch.manual_seed(1)  # each epoch draws a base seed from here, as a real loop does
    first = _epoch(subject, copied, indices, control)
    second = _epoch(subject, copied, indices, control)
    return Workers(
        compared=len(indices),
        twins=sum(one == other for one, other in zip(first[0::2], first[1::2], strict=True)),
        repeats=sum(one == other for one, other in zip(first, second, strict=True)) // 2,
        workers=loader.num_workers,
        persistent=bool(loader.persistent_workers),
        init_fn=getattr(loader.worker_init_fn, "__name__", "") if loader.worker_init_fn is not None else "",
        held=tuple(type(generator).__name__ for generator in generators_in(copied.dataset)),
    )


def _epoch(subject: Subject, feed: Feed, indices: list[int], control: Control) -> Digests:
    """Let each of two workers read every index once, in the same order."""
    twice = [[index] for index in indices for _ in range(2)]  # batches go to the workers in turn
    loader = subject.feed.loader
    reading: DataLoader[Any] = DataLoader(
        feed.dataset,
        batch_sampler=twice,
        num_workers=2,
        collate_fn=feed.collate,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        timeout=TIMEOUT,
    )
    undo = _remember_signals()
    iterator: Any = None
    found: Digests = []
    try:
        iterator = iter(reading)
        for raw in iterator:
            control.progress(len(found) / len(twice), "loading the same samples in two workers")
            found.append(digests_of(subject.wrap(raw)))
    except (RuntimeError, AttributeError, TypeError, OSError, ImportError) as error:
        raise NotApplicable(f"two workers cannot be started here ({type(error).__name__}: {error})") from None
    finally:
        _end(iterator)
        undo()
    return found


def _end(iterator: Any) -> None:
    """Shut the workers down, and end those that do not go."""
    if iterator is None:
        return
    processes = list(getattr(iterator, "_workers", ()))
    stopper = threading.Thread(target=iterator._shutdown_workers, daemon=True)
    stopper.start()
    stopper.join(5)
    deadline = time.monotonic() + 2
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join(1)


def _remember_signals() -> Any:
    """Give a function that puts back the handler for ended children, which a DataLoader sets once and for all."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    before, was_set = signal.getsignal(signal.SIGCHLD), signal_handling._SIGCHLD_handler_set

    def undo() -> None:
        if not was_set and signal.getsignal(signal.SIGCHLD) is not before:
            signal.signal(signal.SIGCHLD, before if before is not None else signal.SIG_DFL)
            signal_handling._SIGCHLD_handler_set = False

    return undo
