"""A stream that every worker reads from its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.core.torch_compat import in_worker
from nbdebug.errors import NotApplicable
from nbdebug.setup import Feed, Setup
from nbdebug.setup.feature_rows import digests_of
from nbdebug.setup.user_code import required_user_code

__all__ = ["StreamParts", "stream_not_split", "stream_parts"]


@dataclass(frozen=True)
class StreamParts:
    """The first samples that two workers of a stream would yield: how many there are, and how many are the same."""

    workers: int
    compared: int
    distinct: int
    same: int


SAMPLES = 16


@probe
def stream_parts(setup: Setup) -> StreamParts:
    """Read the beginning of a stream as its first and as its second worker would."""
    loader = setup.feed.loader
    if not isinstance(loader, DataLoader) or not isinstance(loader.dataset, IterableDataset):
        raise NotApplicable("the loader does not read a stream")
    if loader.num_workers < 2:
        raise NotApplicable("the loader has fewer than two workers")
    if loader.worker_init_fn is not None:
        raise NotApplicable("worker_init_fn may split the stream")
    with required_user_code("the stream cannot be read in this process: {kind}: {message}"):
        first, second = (_beginning(setup, loader, index) for index in range(2))
    same = sum(one == other for one, other in zip(first, second, strict=False))
    return StreamParts(loader.num_workers, min(len(first), len(second)), len(set(first)), same)


def _beginning(setup: Setup, loader: DataLoader[object], index: int) -> list[bytes]:
    """Return digests of the first samples of one worker, which has a seed of its own."""
    torch.manual_seed(100 + index)
    found: list[bytes] = []
    with in_worker(index, loader.num_workers, loader.dataset):
        for raw in islice(Feed(loader, "loader"), SAMPLES):
            found += digests_of(setup.wrap(raw))
            if len(found) >= SAMPLES:
                break
    return found[:SAMPLES]


@check(explains=("duplicate-samples", "repeated-batches"))
def stream_not_split(
    parts: StreamParts,
    *,
    least: int = 4,  # distinct samples: with fewer, equal ones may be a coincidence; our choice
) -> Iterator[Finding]:
    """Every worker of the DataLoader reads the whole stream, so each sample comes once per worker.

    nbdebug reads the first samples of a copy of an `IterableDataset` twice, as two different workers would see it, and
    compares them. Streams that draw random samples differ, and so do those that use `get_worker_info`.

    Why it matters: with four workers an epoch holds each sample four times, close together. The epoch takes four times
    as long, and the gradients of neighboring batches are the same.

    What to try: let `__iter__` yield every n-th sample, with `torch.utils.data.get_worker_info()`.
    """
    if parts.distinct < least or parts.same < parts.compared:
        return
    yield Finding(
        f"Each of the {parts.workers} workers reads the whole stream, so each sample comes {parts.workers} times per "
        f"epoch (the first {parts.compared} samples of two workers are identical).",
        where="loader",
        evidence={
            "workers": parts.workers,
            "samples compared": parts.compared,
            "identical": parts.same,
            "threshold": least,
            "source": "torch.utils.data.IterableDataset",
        },
        remedies=(
            Remedy(
                "Split the stream between the workers.",
                "info = torch.utils.data.get_worker_info()\n"
                "yield from itertools.islice(samples, info.id, None, info.num_workers)",
            ),
        ),
    )
