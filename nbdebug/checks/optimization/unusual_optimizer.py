"""Optimizer settings outside the usual range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.sandbox import Sandbox
from nbdebug.sandbox.schedules import made_with, rate_of, rates_now
from nbdebug.setup.user_code import user_code

__all__ = ["EPS_STORED", "GroupRate", "OptimizerFacts", "optimizer_facts", "unusual_optimizer"]


EPS_STORED = "eps as stored"


@dataclass(frozen=True)
class GroupRate:
    """The learning rate of one parameter group: now, and the highest that is known to come (None: not known)."""

    index: int
    now: float
    peak: float | None
    made_with: float  # as a scheduler noted it; 0 where there was none
    parameters: int  # tensors that require a gradient
    ascends: bool = False  # maximize=True, with which a negative rate descends

    @property
    def trains_nothing(self) -> bool:
        """Return whether its steps change nothing, or go the wrong way, for the whole training."""
        return self.peak is not None and (self.peak == 0 or (self.peak < 0) != self.ascends)


@dataclass(frozen=True)
class OptimizerFacts:
    """The settings of the optimizer, one dict of plain numbers for each parameter group.

    Where there is an eps, `EPS_STORED` is what is left of it in the precision of the parameters.
    """

    name: str
    groups: tuple[dict[str, float], ...]
    assumed: bool
    rates: tuple[GroupRate, ...] = ()  # of the groups that have something to train
    has_scheduler: bool = False


CALLS = 3  # of the user's step, enough to see whether it sets the learning rate


@probe
def optimizer_facts(sandbox: Sandbox) -> OptimizerFacts:
    """Read lr, momentum, betas, eps and weight decay of every parameter group."""
    groups = tuple(_numbers(group) for group in sandbox.optimizer.param_groups)
    if sandbox.owns_optimizer:
        return OptimizerFacts("Adam", groups, assumed=True)
    has_scheduler = sandbox.scheduler is not None
    return OptimizerFacts(
        type(sandbox.optimizer).__name__, groups, False, tuple(_measured_rates(sandbox)), has_scheduler
    )


def _measured_rates(sandbox: Sandbox) -> Iterator[GroupRate]:
    """Read the rates of the user's own optimizer: those of the copy may stand behind a warm-up already."""
    peaks = _peaks(sandbox)
    for index, group in enumerate(sandbox.setup.optimizer.param_groups):
        now = rate_of(group)
        trained = sum(p.requires_grad for p in group["params"])
        if now is not None and trained:
            peak = peaks[index] if index < len(peaks) else None
            yield GroupRate(index, now, peak, made_with(group), trained, bool(group.get("maximize")))


def _peaks(sandbox: Sandbox) -> tuple[float, ...]:
    """Return the highest rate of each group from now on, as far as it is known."""
    live = sandbox.setup.optimizer
    now = rates_now(live)
    if sandbox.scheduler is not None:
        plateau = isinstance(sandbox.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)  # which only lowers
        return now if plateau else sandbox.setup.highest_rates or ()
    peaks = tuple(max(rate, made_with(group) or rate) for rate, group in zip(now, live.param_groups, strict=True))
    if sandbox.train_step is None or min(peaks) > 0:
        return peaks
    stepped = _rates_of_step(sandbox)
    return tuple(max(pair) for pair in zip(peaks, stepped, strict=True)) if stepped else ()


def _rates_of_step(sandbox: Sandbox) -> tuple[float, ...]:
    """Call the user's step, which may set the learning rate, and return the highest rates; empty where it fails."""
    seen = []
    sandbox.ready_to_train()
    with user_code() as tried:  # a step that fails is reported by its own check
        for batch in [sandbox.batch()] * CALLS:
            sandbox.user_step(batch.clone())
            seen.append(rates_now(sandbox.optimizer))
    return tuple(max(rates) for rates in zip(*seen, strict=True)) if not tried.failure else ()


def _numbers(group: dict[str, Any]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for key, value in group.items():
        if key == "params":
            continue
        if isinstance(value, tuple):
            numbers.update({f"{key}[{i}]": float(item) for i, item in enumerate(value)})
        elif hasattr(value, "__float__") and not isinstance(value, bool):
            numbers[key] = float(value)
    if "eps" in numbers:
        numbers[EPS_STORED] = min(
            (float(torch.tensor(numbers["eps"], dtype=kind)) for kind in _kinds(group)), default=1.0
        )
    return numbers


def _kinds(group: dict[str, Any]) -> set[torch.dtype]:
    """Return the precisions in which the optimizer keeps its numbers: those of the parameters."""
    return {p.dtype for p in group["params"] if p.is_floating_point()}


# name in the param group -> its usual value
DEFAULTS = {"betas[0]": 0.9, "betas[1]": 0.999, "eps": 1e-8, "momentum": 0.9, "alpha": 0.99, "dampening": 0.0}

CONSEQUENCES = (  # of a training whose weights do not move, or move up
    "step-never-taken",
    "schedule-reaches-zero",
    "cannot-overfit-batch",
    "worse-than-baseline",
    "update-ratio-off",
    "loss-flat",
    "loss-diverges",
    "still-improving",
)


@check(basis="statistic", explains=("cannot-overfit-batch",))
def unusual_optimizer(
    optimizer: OptimizerFacts,
    *,
    beta1: float = 0.99,  # at most; our choice, beyond published recipes; 0 and 0.5 are used for adversarial training
    beta2_least: float = 0.8,  # our choice, beyond published recipes; the default is 0.999
    beta2: float = 0.99999,  # at most; our choice, a hundred times the memory of the default
    eps: float = 0.1,  # at most; 0.1 and 1.0 were used for Inception with RMSprop
    momentum: float = 0.995,  # at most; nnU-Net uses 0.99; 0.999 still averages gradients from a thousand steps ago
    alpha_least: float = 0.8,  # our choice, beyond published recipes; the default is 0.99
    alpha: float = 0.9999,  # at most; our choice, a hundred times the memory of the default
    dampening: float = 0.99,  # at most; our choice: 1 lets no gradient into the momentum
) -> Iterator[Finding]:
    """An optimizer setting is outside the range that is known to train networks.

    nbdebug reads learning rate, betas, eps, momentum, alpha and dampening of every parameter group, and rounds eps to
    the precision of the parameters. A learning rate of 0 or below counts only where neither the scheduler, nor the one
    that the optimizer was made with, nor your train_step raises it.

    Why it matters: a typo (0.09 for 0.9, 1e8 for 1e-8) does not raise an error; it only prevents learning. With a
    learning rate of 0 no step changes a weight; with a negative one each step increases the loss. An eps that half
    precision rounds to zero no longer prevents a division by zero where the gradient is zero.

    What to try: leave everything but the learning rate at its default until the model learns.
    """
    if optimizer.assumed:
        raise NotApplicable("no optimizer was given")
    yield from _rates(optimizer)
    usual = {
        "betas[0]": (0.0, beta1),
        "betas[1]": (beta2_least, beta2),
        "eps": (0.0, eps),
        "momentum": (0.0, momentum),
        "alpha": (alpha_least, alpha),
        "dampening": (0.0, dampening),
    }
    for index, group in enumerate(optimizer.groups):
        yield from _settings(optimizer, index, group, usual)


def _settings(
    optimizer: OptimizerFacts, index: int, group: Mapping[str, float], usual: Mapping[str, tuple[float, float]]
) -> Iterator[Finding]:
    """Return the settings of one group that lie outside of their usual range."""
    if group.get("eps", 0.0) > 0 == group.get(EPS_STORED):
        yield _lost_eps(optimizer.name, index, group["eps"])
    for name, (low, high) in usual.items():
        value = group.get(name)
        if value is None or low <= value <= high:
            continue
        yield Finding(
            f"`{optimizer.name}` has `{name}` = {value:g}; the usual range is {low:g} to {high:g} (default "
            f"{DEFAULTS[name]:g}).",
            where=f"optimizer.param_groups[{index}]",
            severity="suspect",
            evidence={name: value, "threshold": f"{low:g} to {high:g}", "source": "published training recipes"},
            remedies=(
                Remedy(
                    "Use the usual value.",
                    f'optimizer.param_groups[{index}]["{name.split("[")[0]}"] = …  # {DEFAULTS[name]:g}',
                    Patch("set-optimizer-option", {"option": name, "value": DEFAULTS[name]}),
                ),
            ),
        )


def _rates(optimizer: OptimizerFacts) -> Iterator[Finding]:
    """Yield what is wrong with the learning rates: all of them is a bug, one among others may be meant."""
    off = [rate for rate in optimizer.rates if rate.trains_nothing]
    if off and len(off) == len(optimizer.rates):
        if not (optimizer.has_scheduler and any(rate.made_with > 0 for rate in off)):  # see schedule-reaches-zero
            yield _no_rate(optimizer, off)
        return
    usual = _usual_rate(optimizer.groups[0])
    for rate in off:
        held = f"its {rate.parameters} parameter{'s' * (rate.parameters > 1)}"
        yield Finding(
            f"The learning rate of param_groups[{rate.index}] is {rate.now:g}: {_effect(rate, held)}.",
            where=f"optimizer.param_groups[{rate.index}]",
            severity="note" if rate.peak == 0 else "suspect",
            evidence=_rate_evidence([rate]),
            remedies=(
                Remedy(
                    "If these parameters are meant to be frozen, say so, which also saves their gradients.",
                    f'for p in optimizer.param_groups[{rate.index}]["params"]:\n    p.requires_grad_(False)',
                ),
                Remedy("Otherwise give the group a rate.", f'optimizer.param_groups[{rate.index}]["lr"] = {usual:g}'),
            ),
        )


def _no_rate(optimizer: OptimizerFacts, off: Sequence[GroupRate]) -> Finding:
    usual = _usual_rate(optimizer.groups[0])
    worst = min(off, key=lambda rate: rate.now)
    all_groups = f" in all {len(off)} parameter groups" if len(off) > 1 else ""
    raised = "its scheduler never raises it" if optimizer.has_scheduler else "nothing that was passed raises it"
    return Finding(
        f"The learning rate of {optimizer.name} is {worst.now:g}{all_groups} and {raised}: "
        f"{_effect(worst, 'the weights')}.",
        where="optimizer" if len(off) > 1 else f"optimizer.param_groups[{off[0].index}]",
        is_contradiction=True,
        evidence=_rate_evidence(off),
        remedies=(
            Remedy(
                "Set a learning rate above 0.",
                f'for group in optimizer.param_groups:\n    group["lr"] = {usual:g}',
                None if optimizer.has_scheduler else Patch("set-optimizer-option", {"option": "lr", "value": usual}),
            ),
            Remedy("If your own loop sets it, pass that as scheduler= or train_step=."),
        ),
        explains=CONSEQUENCES,
    )


def _usual_rate(group: Mapping[str, float]) -> float:
    """Return a rate to begin with: that of Adam where gradients are divided by their size, else those of SGD."""
    return 1e-3 if "eps" in group else 1e-2 if group.get("momentum") else 0.1


def _effect(rate: GroupRate, what: str) -> str:
    return f"no step changes {what}" if rate.peak == 0 else f"each step moves {what} so that the loss increases"


def _rate_evidence(off: Sequence[GroupRate]) -> dict[str, object]:
    return {
        "learning rates": [rate.now for rate in off],
        "highest to come": [rate.peak for rate in off],
        "threshold": "above 0",
        "source": "the update rule",
    }


def _lost_eps(optimizer: str, index: int, eps: float) -> Finding:
    return Finding(
        f"The `eps` of `{optimizer}` ({eps:g}) rounds to zero in the precision of the parameters, so a zero gradient "
        "gives 0/0 = NaN.",
        where=f"optimizer.param_groups[{index}]",
        severity="suspect",
        evidence={"eps": eps, EPS_STORED: 0.0, "threshold": 0, "source": "rounding to half precision"},
        remedies=(
            Remedy(
                "Keep the parameters in float32 and use autocast for half precision.", "with torch.autocast(device): …"
            ),
            Remedy(
                "Use an eps that half precision can represent.",
                f'optimizer.param_groups[{index}]["eps"] = 1e-4',
                Patch("set-optimizer-option", {"option": "eps", "value": 1e-4}),
            ),
        ),
    )
