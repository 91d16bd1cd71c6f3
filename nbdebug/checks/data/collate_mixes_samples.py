"""A collate function that does not keep together what belongs to a sample."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, default_collate

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.locate_module import jittered
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.sample_dataset import fresh_reader, seed_all
from nbdebug.setup.user_code import required_user_code

__all__ = ["CollatedOrder", "collate_mixes_samples", "collated_order"]


@dataclass(frozen=True)
class CollatedOrder:
    """What becomes of a few samples that are collated in reversed order, or together with others.

    `moved` is how far the prediction of any sample is from each one of the reversed batch, relative to how predictions
    differ, and `noise` the same of a second run. `exchanged` counts samples whose prediction stays and whose target is
    another; `unshifted` names an index tensor that is joined without offsets. `scaled` names an input whose columns are
    scaled or shifted by what other samples are in the batch.
    """

    samples: int
    moved: float = 0.0
    noise: float = 0.0
    exchanged: int = 0
    target: str = ""
    unshifted: str = ""
    scaled: str = ""


SAMPLES = 8
SHARED = 6  # of them stay when the others are replaced
SAME = 1e-3  # of the distance between predictions, which rounding stays below
EXACT = 1e-4  # of a column's standard deviation


@probe
def collated_order(sandbox: Sandbox, trial: TrialRun | None) -> CollatedOrder:
    """Collate the same samples in two orders, and some of them with others, and predict them in eval mode."""
    if trial is not None:
        require_run(trial)
    items = _items(sandbox)
    with torch.no_grad(), sandbox.mode(training=False):
        sandbox.run(_collated(sandbox, items[:SAMPLES]))  # lazy layers get their parameters
        jittered(sandbox.model)
    first, again, turned = (
        _collated(sandbox, part, seed)
        for part, seed in ((items[:SAMPLES], 0), (items[:SAMPLES], 1), (items[:SAMPLES][::-1], 0))
    )
    if not all(torch.equal(t, again.inputs[n]) for n, t in first.inputs.items()):
        raise NotApplicable("the collate function draws random numbers")
    own, repeated, other = (_predicted(sandbox, batch) for batch in (first, again, turned))
    apart = torch.cdist(own, own)
    scale = float(apart[apart > 0].median()) if bool((apart > 0).any()) else 0.0
    if scale == 0 or own.shape != other.shape:
        raise NotApplicable("the predictions of these samples are all the same")
    distances = torch.cdist(own, other) / scale
    name, exchanged = _exchanged(first, turned, distances)
    return CollatedOrder(
        samples=len(own),
        moved=float(distances.min(1).values.max()),
        noise=float((own - repeated).norm(dim=1).max()) / scale,
        exchanged=exchanged,
        target=name,
        unshifted=_unshifted(sandbox, items),
        scaled=_scaled(sandbox, items),
    )


def _items(sandbox: Sandbox) -> list[Any]:
    """Return some samples as the data set gives them."""
    feed = sandbox.setup.feed
    loader = feed.loader
    if not isinstance(loader, DataLoader) or feed.gives_whole_batches or loader.collate_fn is default_collate:
        raise NotApplicable("the loader has no collate function of its own")
    reader, wanted = fresh_reader(feed, sandbox.setup.wrap), 2 * SAMPLES - SHARED
    if reader is None or (feed.total or 0) < wanted:
        raise NotApplicable("samples cannot be loaded by index")
    order = feed.within if feed.within is not None else range(feed.total or 0)
    chosen, items = [order[len(order) * i // wanted] for i in range(wanted)], []
    for index in chosen:
        seed_all(0)
        with required_user_code(f"sample {index} cannot be loaded ({{kind}}); see sample-fails"):
            items.append(copy.deepcopy(reader.dataset[index]))
    return items


def _collated(sandbox: Sandbox, items: Sequence[Any], seed: int = 0) -> Batch:
    seed_all(seed)
    with required_user_code("these samples cannot be collated ({kind})"):
        return sandbox.setup.wrap(sandbox.setup.feed.collate(copy.deepcopy(list(items)))).to(sandbox.device)


@torch.no_grad()
def _predicted(sandbox: Sandbox, batch: Batch) -> torch.Tensor:
    seed_all(0)
    with required_user_code("a batch of these samples fails ({kind})", passing=()), sandbox.mode(training=False):
        found = sandbox.run(batch.clone()).predicted
    if not isinstance(found, torch.Tensor) or found.shape[:1] != (SAMPLES,) or not bool(found.isfinite().all()):
        raise NotApplicable("the model gives no row of numbers for each sample")
    return found.detach().double().reshape(SAMPLES, -1)


def _exchanged(first: Batch, turned: Batch, distances: torch.Tensor) -> tuple[str, int]:
    """Find the samples by their predictions, and count those that have another target."""
    nearest = distances.topk(2, dim=1, largest=False)
    if not bool(((nearest.values[:, 0] < SAME) & (nearest.values[:, 1] > 10 * SAME)).all()):
        return "", 0
    for name, target in first.targets.items():
        other = turned.targets.get(name)
        if other is not None and target.dim() and target.shape == other.shape and len(target) == len(distances):
            differs = (target != other[nearest.indices[:, 0]]).reshape(len(target), -1).any(1)
            if bool(differs.any()):
                return name, int(differs.sum())
    return "", 0


def _unshifted(sandbox: Sandbox, items: Sequence[Any]) -> str:
    """Name a table of indices, one column each, that joins those of the single samples as they are."""
    one, other, both = (_collated(sandbox, part) for part in (items[:1], items[1:2], items[:2]))
    for name, joined in both.inputs.items():
        if joined.is_floating_point() or joined.dim() != 2 or name not in one.inputs or name not in other.inputs:
            continue
        parts = (one.inputs[name], other.inputs[name])
        if parts[0].dim() == parts[1].dim() == 2 and parts[0].shape[0] == parts[1].shape[0] == joined.shape[0]:
            is_table = joined.shape[1] == parts[0].shape[1] + parts[1].shape[1]
            if is_table and torch.equal(joined, torch.cat(parts, 1)):
                return name
    return ""


def _scaled(sandbox: Sandbox, items: Sequence[Any]) -> str:
    """Name an input whose columns are other ones, along a line, where some samples of the batch are others."""
    batch = _collated(sandbox, items[:SAMPLES])
    company = _collated(sandbox, [*items[:SHARED], *items[SAMPLES:]])
    for name, whole in batch.inputs.items():
        other = company.inputs.get(name)
        if not whole.is_floating_point() or other is None or other.shape != whole.shape or len(whole) != SAMPLES:
            continue
        a, b = (t[:SHARED].double().reshape(SHARED, -1) for t in (whole, other))
        if torch.allclose(a, b, rtol=1e-5, atol=1e-6) or not bool((a.isfinite() & b.isfinite()).all()):
            continue
        live = (a.std(0) > 1e-6) & (b.std(0) > 1e-6)
        if not bool(live.any()):
            continue
        (a, b), count = (_centered(t[:, live]) for t in (a, b)), int(live.sum())
        slope = (a * b).sum(0) / (a * a).sum(0)
        left = (b - slope * a).norm(dim=0) / b.norm(dim=0)
        if count and float(left.max()) < EXACT:
            return name
    return ""


def _centered(values: torch.Tensor) -> torch.Tensor:
    return values - values.mean(0)


OFFSETS = Remedy(
    "Shift the indices of each sample by the number of rows that come before it.",
    "edge_index = torch.cat([e + sum(sizes[:i]) for i, e in enumerate(edges)], 1)",
)
TOGETHER = Remedy(
    "Sort or filter the samples before inputs and targets are taken apart.",
    "samples.sort(key=lambda sample: len(sample[0]), reverse=True)\nxs, ys = zip(*samples)",
)
STORED = Remedy(
    "Compute mean and standard deviation once, on the training data, and use them in every batch.",
    "x = (torch.stack(xs) - train_mean) / train_std",
)


@check(explains=("labels-unrelated-to-inputs", "cannot-overfit-batch", "worse-than-baseline", "inputs-ignored"))
def collate_mixes_samples(
    order: CollatedOrder,
    *,
    moved: float = 0.05,  # of the distance between predictions; rounding is far below; our choice
    noises: float = 10.0,  # times the change in a second run; our choice
    exchanged: int = 2,  # samples with another target; our choice
) -> Iterator[Finding]:
    """What belongs to a sample depends on the samples that it is collated with.

    nbdebug collates the same samples in reversed order, and some of them together with others. Each sample has to keep
    its prediction (in eval mode), its target and its values. A collate function that sorts its samples is fine.

    Why it matters: indices that are not shifted point to the rows of another sample, a sort by length that leaves the
    targets behind gives each sample the target of another, and statistics of the batch make a sample look different
    every time, and impossible to predict alone.

    What to try: shift indices by the rows before them, sort whole samples, and normalize with stored statistics.
    """
    evidence = {"samples": order.samples, "threshold": moved, "source": "the same samples in another order"}
    if order.exchanged >= exchanged:
        says = (
            f"The collate function gives {order.exchanged} of {order.samples} samples the target of another one when "
            f"the same samples come in another order."
        )
        yield Finding(
            says, where=order.target, evidence={**evidence, "exchanged": order.exchanged}, remedies=(TOGETHER,)
        )
    elif order.moved > max(moved, noises * order.noise):
        what = f" `{order.unshifted}` is joined without offsets." if order.unshifted else ""
        says = (
            f"The same {order.samples} samples, collated in another order, get other predictions (by {order.moved:.0%} "
            f"of the distance between them).{what}"
        )
        facts = {**evidence, "moved": order.moved, "noise": order.noise}
        yield Finding(says, where=order.unshifted or "loader", evidence=facts, remedies=(OFFSETS,))
    if order.scaled:
        says = f"The values of a sample in `{order.scaled}` are scaled by which other samples are in its batch."
        yield Finding(says, where=order.scaled, severity="suspect", evidence=evidence, remedies=(STORED,))
