"""What to do about each share of the error, in the order of the lecture, as far as this model leaves it to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbdebug.core.torch_compat import Dropout
from nbdebug.engine.decision_tree.improving import IMPROVEMENTS, LESS_REGULARISATION, MORE_NORMALISATION
from nbdebug.setup import Setup, unwrap

__all__ = ["ADVICE", "Advice", "Fact", "facts_about", "fitted"]


@dataclass(frozen=True)
class Advice:
    """An ordered list of things to try for one share of the error."""

    part: str
    says: str
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Fact:
    """What this model says about one thing to try, and whether it leaves anything to do there."""

    says: str
    leaves_to_do: bool


ADVICE = {
    part: Advice(part, says, IMPROVEMENTS[reduced])
    for part, reduced, says in (
        ("avoidable bias", "underfitting", "The model underfits: reduce bias first, in this order."),
        ("variance", "overfitting", "The model overfits: reduce variance, in this order."),
        ("distribution shift", "distribution shift", "The target data differs from the training data."),
        ("validation overfitting", "validation overfitting", "The validation set was used too often, or is too small."),
    )
}


def facts_about(setup: Setup) -> dict[str, Fact]:
    """Read off the model and its optimizer what they say about single things to try."""
    modules = list(unwrap(setup.model).modules())
    dropped = [float(module.p) for module in modules if isinstance(module, Dropout)]
    norms = sum("Norm" in type(module).__name__ for module in modules)
    strongest = max([0.0, *dropped])
    decays = [float(group.get("weight_decay", 0.0)) for group in getattr(setup.optimizer, "param_groups", ())]
    held = [f"dropout of {strongest:g}"] if strongest else []
    decay = max([0.0, *decays])
    held += [f"weight decay of {decay:g}"] if decay else []
    facts = {}
    if held:
        facts[LESS_REGULARISATION] = Fact(f"this model has {' and '.join(held)}", True)
    elif decays:  # without the optimizer nobody knows
        facts[LESS_REGULARISATION] = Fact("this model has no dropout, and its optimizer no weight decay", False)
    there = f"this model has {norms} norm layers" if norms != 1 else "this model has one norm layer"
    facts[MORE_NORMALISATION] = Fact(there if norms else "this model has no norm layer", not norms)
    return facts


def fitted(advice: Advice, facts: Mapping[str, Fact]) -> Advice:
    """Add what is known of the model, and move to the end what it leaves nothing to do about; the order stays."""

    def told(step: str) -> str:
        return f"{step} Here: {facts[step].says}." if step in facts else step

    def waits(step: Any) -> bool:
        return step in facts and not facts[step].leaves_to_do

    return replace(advice, steps=tuple(told(step) for step in sorted(advice.steps, key=waits)))
