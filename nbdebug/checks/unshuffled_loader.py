"""Samples that come in an order of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nbdebug.errors import NotApplicable
from nbdebug.evidence import EpochOrder, LoaderSweep
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["unshuffled_loader"]

SHUFFLE = Remedy("Shuffle the training data.", "DataLoader(…, shuffle=True)", Patch("shuffle"))
STIR = Remedy(
    "Shuffle the stream in a buffer, or its files.",
    "for sample in stream:  # in __iter__ of your data set\n"
    "    if len(buffer) < 2048:\n"
    "        buffer.append(sample)\n"
    "        continue\n"
    "    place = random.randrange(2048)\n"
    "    yield buffer[place]\n"
    "    buffer[place] = sample\n"
    "random.shuffle(buffer)\n"
    "yield from buffer",
    Patch("shuffle"),
)
SOURCE = "37 reasons, 7; a runs test on the order of the labels"


@check(explains=("single-class-batches", "constant-targets", "loss-spikes", "predictions-unstable"))
def unshuffled_loader(
    sweep: LoaderSweep,
    order: EpochOrder | None,
    *,
    p: float = 1e-6,  # so small that a thousand runs of shuffled data raise nothing
    excess: float = 0.2,  # by which neighbours agree more often than chance has it
) -> Iterator[Finding]:
    """The training samples come ordered by their label, or always in the same order.

    nbdebug counts how often a sample has the label of the one before, in the loader's own order, and compares with what
    the frequencies of the labels predict. An order that has nothing to do with the labels, or
    numbers that go up and down as a series in time does, are only noted.

    Why it matters: with ordered labels each step pulls the model to one class and forgets the others; the loss looks
    fine on every batch and the model is bad at everything but the last class.

    What to try: `shuffle=True` in the training loader; for a stream, a shuffle buffer, or a shuffled list of files.
    """
    sweep.require(32)
    if sweep.ordered.complete and len(sweep.ordered.sizes) == 1:
        raise NotApplicable("all samples come in one batch, where their order means nothing")
    found = False
    for name, labels in sweep.ordered.labels.items():
        kinds = sweep.class_labels().get(name)
        verdict = _classes(labels, kinds, sweep.ordered.sizes) if kinds is not None else _numbers(labels)
        if verdict is None or verdict[2] > p or verdict[0] - verdict[1] < excess:
            continue
        found = True
        in_time = kinds is None and not _is_sorted(labels)
        finding = _finding(name, labels, verdict, p, numbers=kinds is None, note=in_time)
        yield replace(finding, remedies=(STIR,)) if sweep.way == "first" else finding
    if not found and order is not None and order.same_order and order.drawn > (order.batch_size or order.drawn):
        how = "in the order of the data set" if order.ascending else "in one and the same order"
        yield Finding(
            f"Every pass draws the {order.drawn} samples {how}; the labels do not follow it, so this may be meant.",
            where="loader",
            severity="note",
            evidence={"drawn": order.drawn, "sampler": order.sampler, "threshold": p, "source": SOURCE},
            remedies=(SHUFFLE,),
        )


def _classes(labels: np.ndarray, everywhere: np.ndarray, sizes: tuple[int, ...]) -> tuple[float, float, float] | None:
    """Give how often neighbours agree, how often they would by chance, and the probability of that."""
    share = np.unique(everywhere, return_counts=True)[1] / len(everywhere)
    chance = float((share**2).sum())
    same = labels[1:] == labels[:-1]
    edges = np.cumsum(sizes[:-1]) - 1
    if len(share) < 2 or len(same) < 32:
        return None
    if len(edges) >= 5 and same[edges].mean() < chance + 0.2 * (1 - chance):
        return None  # batches of one class each, but in no order: single-class-batches says that
    return float(same.mean()), chance, _upper_tail(float(same.mean()), chance, len(same))


def _numbers(labels: np.ndarray) -> tuple[float, float, float] | None:
    """Give how much a number is like the one before it, and the probability of that by chance."""
    if len(labels) < 32 or labels.std() == 0 or not np.isfinite(labels).all():
        return None
    ranks = np.argsort(np.argsort(labels)).astype(float)
    r = float(np.corrcoef(ranks[1:], ranks[:-1])[0, 1])
    return max(r, 0.0), 0.3, math.erfc(max(r, 0.0) * math.sqrt(len(labels)) / math.sqrt(2)) / 2


def _is_sorted(labels: np.ndarray) -> bool:
    """Whether numbers rise or fall all the way; those that go up and down may be a series in its own time."""
    ranks = np.argsort(np.argsort(labels))
    return abs(float(np.corrcoef(ranks, np.arange(len(labels)))[0, 1])) > 0.9


def _upper_tail(rate: float, chance: float, count: int) -> float:
    """Give the probability of a rate at least so high, by the bound of Chernoff and Hoeffding."""
    if rate <= chance:
        return 1.0
    kl = rate * math.log(rate / chance) + ((1 - rate) * math.log((1 - rate) / (1 - chance)) if rate < 1 else 0.0)
    return math.exp(-count * kl / 2)  # neighbouring pairs share a sample, so they count half


def _finding(
    name: str, labels: np.ndarray, verdict: tuple[float, float, float], p: float, numbers: bool, note: bool
) -> Finding:
    rate, chance, probability = verdict
    alike = (
        f"neighbours among {len(labels)} correlate by {rate:.2f}, where 0 would be chance"
        if numbers
        else f"{rate:.0%} of {len(labels)} have the label of the one before, where {chance:.0%} would be chance"
    )
    return Finding(
        f"The samples come ordered by {name}: {alike} (p = {probability:.1g}).",
        where="loader",
        severity="note" if note else "suspect",
        evidence={"agreement": rate, "by chance": chance, "p": probability, "threshold": p, "source": SOURCE},
        remedies=(SHUFFLE,),
        exhibit=Lines(
            ((name, tuple(range(len(labels[:500]))), tuple(float(v) for v in labels[:500])),),
            title="Labels in the order in which they come",
            x_label="sample",
            y_label=name,
            samples=True,
        ),
    )
