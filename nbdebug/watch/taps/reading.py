"""One value that a tap saw: where, when, and its statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.tensor_stats import TensorFacts

__all__ = ["Reading", "first_values", "summary"]


@dataclass(frozen=True)
class Reading:
    """What one call of one module received, gave, or got back as its gradient."""

    name: str
    module: str
    of: str
    step: int
    call: int  # the module's how-manieth call within the step
    training: bool
    facts: TensorFacts

    @property
    def place(self) -> str:
        """Where and when this was, for a sentence."""
        again = f", call {self.call + 1}" if self.call else ""
        return f"{self.of} of {self.name} ({self.module}), step {self.step}{again}"

    def __str__(self) -> str:
        """Return the line that is printed."""
        return f"{self.place}: {summary(self.facts)}"

    def to_dict(self) -> dict[str, Any]:
        """Return one row of the table."""
        facts = self.facts
        return {
            "step": self.step,
            "call": self.call,
            "name": self.name,
            "module": self.module,
            "of": self.of,
            "training": self.training,
            "shape": facts.shape,
            "dtype": facts.dtype,
            "mean": facts.mean,
            "std": facts.std,
            "low": facts.low,
            "high": facts.high,
            "norm": facts.norm,
            "zeros": facts.zeros,
            "nan": facts.nan,
            "inf": facts.inf,
        }


def summary(facts: TensorFacts) -> str:
    """Say in a line what a tensor holds."""
    shape = f"{facts.dtype} {facts.shape}"
    bad = " and ".join(f"{count} {kind}" for count, kind in ((facts.nan, "NaN"), (facts.inf, "inf")) if count)
    if not facts.count:
        return f"{shape}, empty"
    if facts.nan + facts.inf == facts.count:
        return f"{shape}, {bad}, nothing else"
    numbers = f"mean {facts.mean:.4g}, std {facts.std:.4g}, from {facts.low:.4g} to {facts.high:.4g}"
    zeros = f", {facts.zeros:.0%} zeros" if facts.zeros > 0 else ""
    return f"{shape}, {numbers}{zeros}" + (f", and {bad}" if bad else "")


def first_values(value: torch.Tensor, bad: torch.Tensor | None = None, most: int = 5) -> str:
    """Write the first few elements, or the first few of those that are marked, with their places."""
    if value.is_meta or value.layout is not torch.strided:
        return ""
    if bad is None:
        shown = [_written(number) for number in value.flatten()[:most].tolist()]
        return ", ".join(shown) + (", …" if value.numel() > most else "")
    places = bad.nonzero()[:most].tolist()
    listed = ", ".join(f"{place}: {_written(value[tuple(place)].item())}" for place in places)
    return listed + (", …" if int(bad.sum()) > most else "")


def _written(number: Any) -> str:
    return str(number) if isinstance(number, int) else f"{number:.4g}"
