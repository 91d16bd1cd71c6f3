"""DataLoader workers draw the same random numbers."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.core.torch_compat import forget_sigchld, is_sigchld_handled, shut_down_workers, worker_processes
from nbdebug.errors import NotApplicable
from nbdebug.evidence.repeated_reads import Rereading
from nbdebug.evidence.sample_table import Samples
from nbdebug.setup import Feed, Setup
from nbdebug.setup.feature_rows import digests_of
from nbdebug.setup.object_graph import generators_in

__all__ = ["Workers", "worker_rng_duplicates", "workers"]


@dataclass(frozen=True)
class Workers:
    """The same indices read by two workers, and by both again in a second epoch."""

    compared: int
    sandboxes: int
    repeats: int
    workers: int
    persistent: bool
    init_fn: str
    held: tuple[str, ...] = ()


SAMPLES = 8
TIMEOUT = 20  # seconds until a worker that does not answer is given up

Digests = list[list[bytes]]


@probe
def workers(setup: Setup, samples: Samples, rereading: Rereading, control: Control) -> Workers:
    """Compare the random numbers of two DataLoader workers over two epochs."""
    loader = setup.feed.loader
    if not isinstance(loader, DataLoader) or loader.num_workers < 2:
        raise NotApplicable("the loader has fewer than two workers")
    if not rereading.random:
        raise NotApplicable("loading a sample again returns the same values in every worker")
    if setup.device.type == "cuda" and loader.multiprocessing_context is None:
        raise NotApplicable("worker processes are not started while a GPU is in use")
    indices = list(samples.train.indices[:SAMPLES])
    copied = Feed(loader, "loader")
    torch.manual_seed(1)  # each epoch draws a base seed from here, as a real loop does
    first = _epoch(setup, copied, indices, control)
    second = _epoch(setup, copied, indices, control)
    return Workers(
        compared=len(indices),
        sandboxes=sum(one == other for one, other in zip(first[0::2], first[1::2], strict=True)),
        repeats=sum(one == other for one, other in zip(first, second, strict=True)) // 2,
        workers=loader.num_workers,
        persistent=bool(loader.persistent_workers),
        init_fn=getattr(loader.worker_init_fn, "__name__", "") if loader.worker_init_fn is not None else "",
        held=tuple(type(generator).__name__ for generator in generators_in(copied.dataset)),
    )


def _epoch(setup: Setup, feed: Feed, indices: list[int], control: Control) -> Digests:
    """Let each of two workers read every index once, in the same order."""
    twice = [[index] for index in indices for _ in range(2)]  # batches go to the workers in turn
    loader = setup.feed.loader
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
            found.append(digests_of(setup.wrap(raw)))
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
    processes = worker_processes(iterator)
    stopper = threading.Thread(target=shut_down_workers, args=(iterator,), daemon=True)
    stopper.start()
    stopper.join(5)
    deadline = time.monotonic() + 2
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join(1)


def _remember_signals() -> Any:
    """Return a function that puts back the handler for ended children, which a DataLoader sets once and for all."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    before, was_set = signal.getsignal(signal.SIGCHLD), is_sigchld_handled()

    def undo() -> None:
        if not was_set and signal.getsignal(signal.SIGCHLD) is not before:
            signal.signal(signal.SIGCHLD, before if before is not None else signal.SIG_DFL)
            forget_sigchld()

    return undo


_SEEDING = Remedy(
    "Seed from `torch.initial_seed()`, which differs for every worker and epoch.",
    "def worker_init_fn(worker_id):\n    np.random.seed(torch.initial_seed() % 2**32)",
)
_MAKING = Remedy(
    "Create the dataset's generator inside the worker, not in `__init__`.",
    "self.rng = np.random.default_rng(torch.initial_seed())  # in __getitem__, if self.rng is None",
)


@check
def worker_rng_duplicates(workers: Workers) -> Iterator[Finding]:
    """Every DataLoader worker draws the same random augmentation.

    nbdebug lets two workers read the same samples and compares. A generator stored in the dataset is copied into every
    worker with the same state, and a constant seed in `worker_init_fn` is the same for all of them.

    Why it matters: with k workers only a part of the intended augmentation happens, k samples at a time are augmented
    identically, and often each epoch repeats the previous one.

    What to try: seed from `torch.initial_seed()` in `worker_init_fn`, and create generators inside the worker.
    """
    cause = f"; `worker_init_fn` is `{workers.init_fn}`" if workers.init_fn else ""
    cause += f"; the dataset holds a `{workers.held[0]}`" if workers.held else ""
    numbers = {
        "equal": workers.sandboxes,
        "repeated": workers.repeats,
        "compared": workers.compared,
        "threshold": "all of them",
        "source": "two workers compared; independent random draws are never all equal",
    }
    remedies = (_MAKING, _SEEDING) if workers.held else (_SEEDING, _MAKING)
    if workers.compared >= 2 and workers.sandboxes == workers.compared:
        yield Finding(
            f"Two of {workers.workers} workers produce the same random values for all {workers.compared} samples that "
            f"both read{cause}.",
            where="loader",
            evidence=numbers,
            remedies=remedies,
        )
    elif workers.compared >= 2 and workers.repeats == workers.compared and not workers.persistent:
        yield Finding(
            f"The second epoch repeats the random values of the first for all {workers.compared} samples{cause}.",
            where="loader",
            severity="suspect",
            evidence=numbers,
            remedies=remedies,
        )
