"""The training samples are not shuffled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.epoch_order import EpochOrder
from nbdebug.evidence.loader_sweep import LoaderSweep

__all__ = ["unshuffled_loader"]

SHUFFLE = Remedy("Shuffle the training data.", "DataLoader(…, shuffle=True)", Patch("shuffle"))
SHUFFLE_STREAM = Remedy(
    "Use a shuffle buffer for the stream, or shuffle its files.",
    "for sample in stream:  # in __iter__ of your dataset\n"
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


@check(basis="statistic", explains=("single-class-batches", "constant-targets", "loss-spikes", "predictions-unstable"))
def unshuffled_loader(
    sweep: LoaderSweep,
    order: EpochOrder | None,
    *,
    p: float = 1e-6,  # so small that a thousand runs on shuffled data give no false alarm
    excess: float = 0.2,  # by which neighbors agree more often than by chance; our choice
    edges: float = 0.2,  # of the way from chance to 1, across batches: less is a sampler of single classes; our choice
    batches: int = 5,  # borders between batches, at least, to tell that; our choice
    correlation: float = 0.3,  # of the ranks of neighbors, where targets are numbers and drift in time; our choice
    ordered: float = 0.9,  # correlation of ranks and places from which on numbers are sorted; our choice
    least: int = 32,  # samples; our choice
) -> Iterator[Finding]:
    """The training samples are sorted by label, or always in the same order.

    nbdebug counts how often a sample has the same label as the previous one, in the loader's own order, and compares
    with what the label frequencies predict. An order unrelated to the labels, or numeric targets that go up and down
    like a time series, are only noted.

    Why it matters: with sorted labels each step pulls the model toward one class and forgets the others; the loss looks
    fine on every batch and the model is bad at everything but the last class.

    What to try: `shuffle=True` in the training loader; for a stream, a shuffle buffer, or a shuffled list of files.
    """
    sweep.require(least)
    if sweep.ordered.complete and len(sweep.ordered.sizes) == 1:
        raise NotApplicable("all samples are in one batch, so their order does not matter")
    found = False
    for name, labels in sweep.ordered.labels.items():
        kinds = sweep.class_labels().get(name)
        agreement = (
            _classes(labels, kinds, sweep.ordered.sizes, edges, batches)
            if kinds is not None
            else _numbers(labels, correlation)
        )
        if agreement is None or agreement[2] > p or agreement[0] - agreement[1] < excess:
            continue
        found = True
        in_time = kinds is None and not _is_sorted(labels, ordered)
        finding = _finding(name, labels, agreement, p, numbers=kinds is None, note=in_time)
        yield replace(finding, remedies=(SHUFFLE_STREAM,)) if sweep.way == "first" else finding
    if not found and order is not None and order.same_order and order.drawn > (order.batch_size or order.drawn):
        how = "in dataset order" if order.ascending else "in the same order"
        yield Finding(
            f"Every epoch draws the {order.drawn} samples {how}; the labels are not sorted, so this may be intended.",
            where="loader",
            severity="note",
            evidence={"drawn": order.drawn, "sampler": order.sampler, "threshold": p, "source": SOURCE},
            remedies=(SHUFFLE,),
        )


def _classes(
    labels: np.ndarray, everywhere: np.ndarray, sizes: tuple[int, ...], excess: float, batches: int
) -> tuple[float, float, float] | None:
    """Return how often neighbors agree, how often they would by chance, and the p-value."""
    share = np.unique(everywhere, return_counts=True)[1] / len(everywhere)
    chance = float((share**2).sum())
    same = labels[1:] == labels[:-1]
    edges = np.cumsum(sizes[:-1]) - 1
    if len(share) < 2 or len(same) < 32:
        return None
    if len(edges) >= batches and same[edges].mean() < chance + excess * (1 - chance):
        return None  # single-class batches in random order: reported by single-class-batches
    return float(same.mean()), chance, _upper_tail(float(same.mean()), chance, len(same))


def _numbers(labels: np.ndarray, usual: float) -> tuple[float, float, float] | None:
    """Return the rank autocorrelation at lag 1, its tolerance, and the p-value."""
    if len(labels) < 32 or labels.std() == 0 or not np.isfinite(labels).all():
        return None
    ranks = np.argsort(np.argsort(labels)).astype(float)
    r = float(np.corrcoef(ranks[1:], ranks[:-1])[0, 1])
    return max(r, 0.0), usual, math.erfc(max(r, 0.0) * math.sqrt(len(labels)) / math.sqrt(2)) / 2


def _is_sorted(labels: np.ndarray, least: float) -> bool:
    """Return whether the numbers are sorted; those that go up and down may be a time series."""
    ranks = np.argsort(np.argsort(labels))
    return abs(float(np.corrcoef(ranks, np.arange(len(labels)))[0, 1])) > least


def _upper_tail(rate: float, chance: float, count: int) -> float:
    """Return the probability of a rate at least this high (Chernoff-Hoeffding bound)."""
    if rate <= chance:
        return 1.0
    kl = rate * math.log(rate / chance) + ((1 - rate) * math.log((1 - rate) / (1 - chance)) if rate < 1 else 0.0)
    return math.exp(-count * kl / 2)  # neighboring pairs share a sample, so they count half


def _finding(
    name: str, labels: np.ndarray, agreement: tuple[float, float, float], p: float, numbers: bool, note: bool
) -> Finding:
    rate, chance, probability = agreement
    alike = (
        f"neighbors have a rank correlation of {rate:.2f} in {len(labels)} samples (chance 0"
        if numbers
        else f"{rate:.0%} of {len(labels)} samples have the label of the previous one (chance {chance:.0%}"
    )
    return Finding(
        f"The samples are sorted by `{name}`: {alike}, p = {probability:.1g}).",
        where="loader",
        severity="note" if note else "suspect",
        evidence={"agreement": rate, "by chance": chance, "p": probability, "threshold": p, "source": SOURCE},
        remedies=(SHUFFLE,),
        exhibit=Lines(
            ((name, tuple(range(len(labels[:500]))), tuple(float(v) for v in labels[:500])),),
            title="Labels in loader order",
            x_label="sample",
            y_label=name,
            samples=True,
        ),
    )
