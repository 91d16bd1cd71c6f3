"""Read the same samples again and again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.setup import Batch, Setup
from nbdebug.setup.feature_rows import digests_of
from nbdebug.setup.sample_dataset import Reader, fresh_reader

__all__ = ["Rereading", "sample_twice"]


@dataclass(frozen=True)
class Rereading:
    """What reading the same samples again gives, with the RNG state restored in between.

    `random` counts samples that differ when the generators differ; `changed` those that differ although the generators
    are the same, in a way that repeats on another copy; `local` those where only the sample that was read changes.
    `stored` names the arrays of the data set whose bytes changed. `restless` counts samples that never repeat.
    """

    read: int
    random: int
    changed: int
    local: int
    restless: int
    stored: tuple[str, ...]
    examples: tuple[int, ...] = ()
    first: float = 0.0
    second: float = 0.0
    third: float = 0.0
    target_random: bool = False
    target_changed: int = 0
    overwritten: int = 0  # samples that became another one when the next was read: they share one piece of memory
    target_alone: int = 0  # samples with another target for the same inputs, by other random numbers


SAMPLES = 12
SEEDS = (7, 8, 9)  # other than the first


@probe(quick=False)
def sample_twice(setup: Setup, control: Control) -> Rereading:
    """Load the same samples several times, with the same and with another random seed."""
    first, second = (fresh_reader(setup.feed, setup.wrap) for _ in range(2))
    if first is None or second is None:
        raise NotApplicable("samples cannot be loaded by index")
    if not first.is_copy:
        raise NotApplicable("the dataset is too large to copy, and reading may modify it")
    total = setup.feed.total or 0
    order = np.random.default_rng(0).permutation(min(total, 1_000_000))[: 2 * SAMPLES].tolist()
    half = (len(order) + 1) // 2
    tally, before = _Tally(), first.stored()
    for number in control.as_many(range(half)):
        control.progress(number / half, "loading samples again")
        tally.look(first, second, order[number], order[min(half + number, len(order) - 1)])
    after = first.stored()
    changed = sum(a != b for a, b in zip(before, after, strict=False))
    return tally.evidence((f"{changed} array{'s' * (changed > 1)} of the dataset",) if changed else ())


class _Tally:
    """Counts of what happened to the samples that were read again."""

    def __init__(self) -> None:
        self.read = self.random = self.changed = self.local = self.restless = self.target_changed = 0
        self.overwritten = self.target_alone = 0
        self.target_random = False
        self.examples: list[int] = []
        self.means = (0.0, 0.0, 0.0)

    def look(self, reader: Reader, other: Reader, index: int, neighbor: int) -> None:
        """Read one sample with the same random numbers, then with others, and again on another copy."""
        runs = [reader.read(index, 0) for _ in range(3)]
        self.overwritten += reader.is_overwritten(index, neighbor)
        contents = [_content(batch) for batch in runs]
        others = [_content(reader.read(index, seed)) for seed in SEEDS]
        varied = others[0]
        self.read += 1
        if contents[0] == contents[1] == contents[2]:
            self.random += varied[0] != contents[0][0]
            self.target_random = self.target_random or varied[1] != contents[0][1]
            self.target_alone += any(x == contents[0][0] and y != contents[0][1] for x, y in others)
            return
        beside = _content(other.read(neighbor, 0))
        again = [_content(other.read(index, 0)) for _ in range(3)]
        if again != contents:  # it never repeats, so it is chance from a source that cannot be set
            self.restless += 1
            return
        self.changed += 1
        self.target_changed += contents[0][1] != contents[2][1]
        self.local += _content(reader.read(neighbor, 0)) == beside
        self.examples.append(index)
        if len(self.examples) == 1:
            self.means = (_mean(runs[0]), _mean(runs[1]), _mean(runs[2]))

    def evidence(self, stored: tuple[str, ...]) -> Rereading:
        """Put the counts together."""
        return Rereading(
            self.read,
            self.random,
            self.changed,
            self.local,
            self.restless,
            stored,
            tuple(self.examples),
            *self.means,
            target_random=self.target_random,
            target_changed=self.target_changed,
            overwritten=self.overwritten,
            target_alone=self.target_alone,
        )


def _content(batch: Batch) -> tuple[list[bytes], list[bytes]]:
    """Digest inputs and targets; wrapped batches share no memory with the data set, so they stay as they were."""
    targets = [t.detach().cpu().contiguous() for t in batch.targets.values()]
    return digests_of(batch), [t.double().numpy().tobytes() for t in targets if not t.is_complex()]


def _mean(batch: Batch) -> float:
    floats = [t.double().abs().mean() for t in batch.inputs.values() if t.numel() and not t.is_complex()]
    return float(torch.stack(floats).mean()) if floats else 0.0
