"""Weight decay that outweighs the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.charts import Lines
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import FirstPass, require_run
from nbdebug.evidence.initial_weights import InitialWeights
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.textbook_training import final_loss, race
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.sample_dataset import seed_torch

__all__ = ["DecayRace", "decay_race", "excessive_weight_decay"]


@dataclass(frozen=True)
class DecayRace:
    """A short training with the weight decay given, beside one without.

    `dominance` is the part of one step that decay makes, over the part that the gradient makes.
    """

    decay: float
    learning_rate: float
    dominance: float
    with_decay: tuple[float, ...] = ()
    without: tuple[float, ...] = ()

    def ends(self) -> tuple[float, float]:
        """Return the mean loss of the last steps, with decay and without."""
        return final_loss(self.with_decay, self.without), final_loss(self.without, self.with_decay)


STEPS = 120
BATCHES = 8
WORTH_A_RACE = 0.1  # the share of a step that decay makes, below which it cannot rule


@probe(quick=False)
def decay_race(sandbox: Sandbox, trial: TrialRun, control: Control) -> DecayRace:
    """Compare training steps with and without weight decay."""
    require_run(trial)
    if sandbox.owns_optimizer:
        raise NotApplicable("no optimizer was passed")
    groups = [group for group in sandbox.optimizer.param_groups if group.get("weight_decay")]
    decay = max((float(group["weight_decay"]) for group in groups), default=0.0)
    if decay <= 0 or isinstance(sandbox.optimizer, torch.optim.LBFGS):
        return DecayRace(0.0, 0.0, 0.0)
    rate, batches, free = float(groups[0].get("lr", 0.0)), sandbox.batches(BATCHES), sandbox.fresh()
    for group in free.optimizer.param_groups:
        group["weight_decay"] = 0.0
    dominance = _dominance(
        _one_step(sandbox.fresh(), batches[0]), _one_step(_without_decay(sandbox.fresh()), batches[0])
    )
    if dominance < WORTH_A_RACE:
        return DecayRace(decay, rate, dominance)
    held = race(
        sandbox, batches, sandbox.optimizer, STEPS, lambda f: control.progress(f / 2, "training with weight decay")
    )
    loose = race(
        free, batches, free.optimizer, STEPS, lambda f: control.progress(0.5 + f / 2, "training without weight decay")
    )
    return DecayRace(decay, rate, dominance, held, loose)


def _without_decay(sandbox: Sandbox) -> Sandbox:
    for group in sandbox.optimizer.param_groups:
        group["weight_decay"] = 0.0
    return sandbox


def _one_step(sandbox: Sandbox, batch: Batch) -> list[torch.Tensor]:
    """Return how far every parameter of the optimizer moves in one step."""
    seed_torch(0)
    sandbox.ready_to_train()
    parameters = [p for group in sandbox.optimizer.param_groups for p in group["params"]]
    before = [p.detach().clone() for p in parameters]
    sandbox.plain_step(batch)
    return [p.detach() - old for p, old in zip(parameters, before, strict=True)]


def _dominance(held: list[torch.Tensor], loose: list[torch.Tensor]) -> float:
    pull = sum(float((a - b).double().square().sum()) for a, b in zip(held, loose, strict=True))
    push = sum(float(b.double().square().sum()) for b in loose)
    return (pull / push) ** 0.5 if push > 0 else 0.0


LESS = Remedy(
    "Reduce the weight decay.",
    "torch.optim.AdamW(model.parameters(), lr=…, weight_decay=0.01)",
    Patch("set-optimizer-option", {"option": "weight_decay", "value": 0.01}),
)
NONE = Remedy(
    "Start without weight decay.",
    'for group in optimizer.param_groups:\n    group["weight_decay"] = 0',
    Patch("set-optimizer-option", {"option": "weight_decay", "value": 0.0}),
)


@check(basis="statistic", explains=("cannot-overfit-batch", "unusual-optimizer"))
def excessive_weight_decay(
    race: DecayRace,
    weights: InitialWeights | None,
    first: FirstPass | None,
    *,
    lost: float = 0.25,  # of the loss reduction without decay; our choice
    dominance: float = 3.0,  # decay over gradient in one step, where training is too slow to compare losses; our choice
    untrained: float = 0.5,  # of the chance-level loss: what starts lower is trained; our choice
    slow: float = 0.05,  # of the first loss, gained without decay: less cannot be compared; our choice
    rises: float = 0.05,  # of the chance-level loss, where the model is trained; our choice
    surely: float = 2.0,  # times `lost`: a bug; our choice
    partly: float = 0.4,  # of `lost` is enough where the next two hold as well; our choice
    times: float = 3.0,  # the loss without decay; our choice
    in_step: float = 0.5,  # decay over gradient in one step; our choice
) -> Iterator[Finding]:
    """Weight decay shrinks the weights faster than the gradient can grow them.

    nbdebug takes one step with your weight decay and one without. Where decay is a large part of the step, it trains
    two copies for a while and compares their losses.

    Why it matters: weights that decay faster than they learn end at zero, and the model outputs the same for every
    input.

    What to try: 1e-4 to 5e-3 for SGD, 0.01 to 0.1 for AdamW, and close to none for Adam, whose decay passes through its
    adaptive scaling; none for biases and normalization layers.
    """
    if race.decay == 0:
        raise NotApplicable("the optimizer has no weight decay")
    if not race.with_decay:
        return
    decayed, undecayed = race.ends()
    if not math.isfinite(undecayed):
        raise NotApplicable("the loss is not finite without weight decay either")
    start = race.without[0]
    chance = first.chance_loss if first is not None and first.chance_loss is not None else start
    fresh = (weights is None or weights.fresh) and start > untrained * chance
    gained = start - undecayed
    if gained <= 0 or gained < slow * abs(start):  # too slow to compare losses: trained models and tiny learning rates
        if fresh and race.dominance > dominance:
            yield _finding(race, dominance, "suspect")
        return
    shortfall = (decayed - undecayed) / gained
    dominated = shortfall > partly * lost and decayed > times * undecayed > 0 and race.dominance > in_step
    harmed = (shortfall > lost or dominated) and (fresh or decayed > start + rises * abs(chance))
    if harmed or not math.isfinite(decayed):
        yield _finding(race, lost, "suspect" if shortfall < surely * lost else "bug")


def _finding(race: DecayRace, threshold: float, severity: Severity) -> Finding:
    decayed, undecayed = race.ends()
    curves = (("with decay", race.with_decay), ("without decay", race.without))
    return Finding(
        f"With weight decay {race.decay:g} the loss goes from {race.without[0]:.3g} to {decayed:.3g} in "
        f"{len(race.with_decay)} steps, without it to {undecayed:.3g}. Decay contributes {race.dominance:.2g} times as "
        "much to a step as the gradient.",
        where="optimizer",
        severity=severity,
        evidence={
            "weight decay": race.decay,
            "learning rate": race.learning_rate,
            "decay over gradient": race.dominance,
            "loss with decay": decayed,
            "loss without": undecayed,
            "threshold": threshold,
            "source": "37 reasons, 30; compared within the run",
        },
        remedies=(LESS, NONE),
        exhibit=Lines(
            tuple((name, tuple(map(float, range(len(losses)))), losses) for name, losses in curves),
            title="Loss with and without weight decay",
        ),
    )
