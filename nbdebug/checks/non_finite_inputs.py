"""The inputs or targets contain NaN or Inf."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import BadValuesReach, LoaderSweep, PartFacts
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["non_finite_inputs"]


@check(explains=("non-finite-forward", "non-finite-backward", "batch-not-memorised", "initial-loss-off"))
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
