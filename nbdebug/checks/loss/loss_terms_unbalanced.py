"""One loss term dominates the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.charts import Table
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import own_loss, parts_of, total_of
from nbdebug.setup.sample_dataset import seed_torch

__all__ = ["LossTerm", "LossTerms", "loss_terms", "loss_terms_unbalanced"]


@dataclass(frozen=True)
class LossTerm:
    """One term of the loss with its weight in the sum: its value, and the norm of its gradient early and later."""

    name: str
    weight: float
    value: float
    first: float
    later: float


@dataclass(frozen=True)
class LossTerms:
    """The terms of the loss, at the start and after some steps of training on one batch."""

    terms: tuple[LossTerm, ...]
    steps: int
    place: str


STEPS = 30


@probe
def loss_terms(sandbox: Sandbox, trial: TrialRun, control: Control) -> LossTerms:
    """Compute the gradient of each loss term, at the start and after some training steps."""
    require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    first, place = _measured(sandbox, batch)
    steps = 0
    for steps in range(1, STEPS + 1):
        control.progress(steps / STEPS, "training briefly to compare the loss terms")
        if not math.isfinite(sandbox.plain_step(batch)):
            break
    later, _ = _measured(sandbox, batch)
    terms = [
        LossTerm(name, weight, value, norm, later[name][2] if name in later else math.nan)
        for name, (weight, value, norm) in first.items()
    ]
    return LossTerms(tuple(terms), steps, place)


def _measured(sandbox: Sandbox, batch: Batch) -> tuple[dict[str, tuple[float, float, float]], str]:
    """Return each term's weight in the loss, its value, and the norm of its weighted gradient."""
    seed_torch(0)
    total, parts, place = _parts(sandbox, batch)
    trained = [p for p in sandbox.model.parameters() if p.requires_grad]
    rows = {name: _gradient(part, trained) for name, part in parts.items() if part.requires_grad}
    if len(rows) < 2:
        how = "pass loss_parts=lambda model, batch, loss_fn: {name: term, …}"
        raise NotApplicable(f"the loss terms are unknown; {how}")
    matrix, whole = torch.stack(list(rows.values()), 1), _gradient(total, trained)
    sizes = matrix.norm(dim=0).clamp_min(1e-30)  # terms of very different sizes are what this is about
    weights = torch.linalg.lstsq(matrix / sizes, whole[:, None]).solution[:, 0] / sizes
    if float((matrix @ weights - whole).norm()) > 0.05 * float(whole.norm()):
        raise NotApplicable("no weighted sum of the given terms equals the loss")
    return {
        name: (float(w), float(parts[name].detach()), float(w.abs() * row.norm()))
        for (name, row), w in zip(rows.items(), weights, strict=True)
    }, place


def _parts(sandbox: Sandbox, batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor], str]:
    value, place = _value(sandbox, batch)
    total, parts = total_of(value), parts_of(value)
    if sandbox.loss_parts is not None:
        seed_torch(0)
        named = sandbox.loss_parts(sandbox.model, batch.raw, sandbox.loss_for_user())
        parts, place = parts_of(dict(named)), "loss_parts"
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        raise NotApplicable("the loss has no gradient; see loss-not-differentiable")
    return total.mean(), parts, place


def _value(sandbox: Sandbox, batch: Batch) -> tuple[Any, str]:
    if sandbox.compute_loss is not None:
        return sandbox.compute_loss(sandbox.model, batch.raw, sandbox.loss_for_user()), "compute_loss"
    output = sandbox.forward(batch)
    if sandbox.loss_fn is None and own_loss(output) is not None:
        return output, "model"
    return sandbox.loss_choice(output, batch).function(output, batch.target), "loss_fn"


def _gradient(loss: torch.Tensor, trained: list[torch.nn.Parameter]) -> torch.Tensor:
    gradients = torch.autograd.grad(loss.sum(), trained, retain_graph=True, allow_unused=True)
    flat = [g.flatten() if g is not None else torch.zeros(p.numel()) for g, p in zip(gradients, trained, strict=True)]
    return torch.cat([piece.to("cpu", torch.float64) for piece in flat])


@check(basis="statistic", explains=("loss-metric-disagree",))
def loss_terms_unbalanced(
    terms: LossTerms,
    *,
    drowns: float = 1000.0,  # 37 reasons, 20: similar magnitudes; regularizers may be 100 times smaller on purpose
    large: float = 100.0,  # reported as a note only; our choice
) -> Iterator[Finding]:
    """One loss term dominates the gradient, so the other terms have no effect.

    nbdebug computes the gradient of each term separately, with the weight it has in the sum, at initialization and
    again after some training steps on one batch.

    Why it matters: the optimizer follows the sum of the gradients. A term whose gradient is a thousand times smaller
    than another's has no effect on training.

    What to try: weight the terms so that their gradients have similar norms, and log each term separately.
    """
    if any(not term.first > 0 or not term.later > 0 for term in terms.terms):
        return  # a term without a gradient is already minimal, or reported by another check
    largest = max(terms.terms, key=lambda term: term.first)
    rest = [term for term in terms.terms if term is not largest]
    ratio = min(min(largest.first / term.first, largest.later / term.later) for term in rest)
    if ratio < large:
        return
    others = ", ".join(f"`{term.name}` {term.first:.3g}" for term in rest)
    yield Finding(
        f"The loss term `{largest.name}` has a gradient norm of {largest.first:.3g}, at least {ratio:.3g} times larger "
        f"than the other terms ({others}), also after {terms.steps} steps.",
        where=largest.name,
        severity="suspect" if ratio > drowns else "note",
        evidence={
            "ratio of the gradients": ratio,
            "where the terms come from": terms.place,
            "threshold": drowns,
            "source": "37 reasons, 20: scale each loss",
        },
        remedies=(
            Remedy(
                "Weight the terms so that their gradients have similar norms.",
                f"loss = {largest.name} / {ratio:.1g} + " + " + ".join(term.name for term in rest),
            ),
        ),
        exhibit=Table(
            ("term", "weight", "value", "initial gradient", f"after {terms.steps} steps"),
            tuple((t.name, t.weight, t.value, t.first, t.later) for t in terms.terms),
        ),
    )
