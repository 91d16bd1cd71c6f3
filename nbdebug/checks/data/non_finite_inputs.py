"""The inputs or targets contain NaN or Inf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.loader_sweep_tally import PartFacts
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch, Setup
from nbdebug.setup.user_code import user_code

__all__ = ["BadValuesReach", "bad_values", "non_finite_inputs"]


@dataclass(frozen=True)
class BadValuesReach:
    """Whether NaN or infinity in a sample comes through: None where that could not be tried.

    `inputs_swallowed` says that the prediction and the loss stay finite, `targets_swallowed` that the loss does.
    """

    inputs_swallowed: bool | None = None
    targets_swallowed: bool | None = None
    reason: str = ""


@probe
def bad_values(sandbox: Sandbox, sweep: LoaderSweep) -> BadValuesReach:
    """Run the model on a sample with NaN or Inf and test whether the output is finite."""
    ill = {role: [p for p in sweep.parts if p.role == role and p.bad] for role in ("input", "target")}
    if not any(ill.values()):
        return BadValuesReach(reason="all values are finite")
    swallowed: dict[str, bool | None] = {"input": None, "target": None}
    with user_code() as tried:
        for role, parts in ill.items():
            if parts and parts[0].first_bad is not None:
                swallowed[role] = _is_swallowed(sandbox, role, parts[0].first_bad)
        return BadValuesReach(swallowed["input"], swallowed["target"])
    return BadValuesReach(reason=f"the model fails on such a sample: {tried.failure}")


def _is_swallowed(sandbox: Sandbox, role: str, index: int) -> bool | None:
    batch = _batch_with(sandbox.setup, role, index)
    if batch is None:
        return None
    with sandbox.mode(training=False), torch.no_grad():
        outcome = sandbox.run(batch.to(sandbox.device))
    # The prediction may be only the last of several answers of which the loss is made, so the loss is asked as well.
    asks_loss = role == "target" or _all_finite(*batch.targets.values())
    results = (outcome.loss if asks_loss else None, outcome.predicted if role == "input" else None)
    tensors = [result for result in results if isinstance(result, torch.Tensor)]
    return _all_finite(*tensors) if tensors else None


def _all_finite(*tensors: torch.Tensor) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def _batch_with(setup: Setup, role: str, index: int) -> Batch | None:
    """Return a batch with the sample that is not finite; None where it does not come again, as with augmentation."""
    feed = setup.feed
    if feed.dataset is not None and feed.total and not feed.gives_whole_batches:
        chosen = [index, *(i for i in range(min(feed.total, 8)) if i != index)]
        candidates = iter([feed.collate([feed.dataset[i] for i in chosen])])
    else:
        candidates = islice(feed, 64)
    for raw in candidates:
        batch = setup.wrap(raw)
        tensors = batch.inputs if role == "input" else batch.targets
        if not _all_finite(*tensors.values()):
            return batch
    return None


@check(explains=("non-finite-forward", "non-finite-backward", "cannot-overfit-batch", "initial-loss-off"))
def non_finite_inputs(sweep: LoaderSweep, reach: BadValuesReach | None) -> Iterator[Finding]:
    """The inputs or targets contain NaN or Inf.

    nbdebug reads samples from the whole dataset and counts the non-finite values, by key and column. A mask of -inf is
    intended; missing values that the model or the loss handles itself are only noted.

    Why it matters: one NaN in one sample makes the loss of its batch NaN, and with the next step every weight. From
    then on nothing is learned, often long after the run was started.

    What to try: find out where the values come from (missing entries, a division by zero, the logarithm of zero), then
    impute them, drop the samples, or mask them in the model and in the loss.
    """
    sweep.require()
    for part in sweep.parts:
        if part.bad == 0 or _is_mask(part):
            continue
        swallowed = reach is not None and (reach.inputs_swallowed if part.role == "input" else reach.targets_swallowed)
        yield Finding(
            f"The {part.role} `{part.name}` contains {_kinds(part)} in {part.bad_samples} of {part.samples} samples, "
            f"first in sample {part.first_bad}"
            + (f", in column {part.bad_columns[0]}" if len(part.bad_columns) == 1 and part.width > 1 else "")
            + ("; the loss stays finite." if swallowed else "."),
            where=_place(part),
            severity="note" if swallowed else "bug",
            evidence={
                "nan": part.nan,
                "inf": part.positive_inf + part.negative_inf,
                "samples with them": part.bad_samples,
                "first sample": part.first_bad,
                "columns": list(part.bad_columns),
                "looked at": sweep.says,
                "threshold": 0,
                "source": "37 reasons, 37: a single NaN is enough",
            },
            remedies=(
                Remedy(
                    "Drop the samples, or impute the missing values in the dataset.",
                    "x = torch.nan_to_num(x)",
                    Patch("fill-gaps"),
                ),
            ),
        )


def _is_mask(part: PartFacts) -> bool:
    """Return whether this is an additive attention mask: 0 where attention is allowed, -inf elsewhere."""
    return part.role == "input" and part.bad == part.negative_inf and part.low == part.high == 0.0


def _kinds(part: PartFacts) -> str:
    """Return the counts of NaN and Inf values as text."""
    counts = ((part.nan, "NaN"), (part.positive_inf + part.negative_inf, "Inf"))
    return " and ".join(f"{count} {name} value{'s' * (count > 1)}" for count, name in counts if count)


def _place(part: PartFacts) -> str:
    single = len(part.bad_columns) == 1 and len(part.shape) == 1 and part.width > 1
    return f"{part.name}[:, {part.bad_columns[0]}]" if single else part.name
