"""Does weight decay pull harder than the data?"""

from __future__ import annotations

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import DecayRace, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_torch
from nbdebug.twin import Twin
from nbdebug.twin.race import race

__all__ = ["decay_race"]

STEPS = 120
BATCHES = 8
WORTH_A_RACE = 0.1  # the share of a step that decay makes, below which it cannot rule


@probe(quick=False)
def decay_race(twin: Twin, trial: TrialRun, control: Control) -> DecayRace:
    """Compare training steps with and without weight decay."""
    require_run(trial)
    if twin.owns_optimizer:
        raise NotApplicable("no optimizer was passed")
    groups = [group for group in twin.optimizer.param_groups if group.get("weight_decay")]
    decay = max((float(group["weight_decay"]) for group in groups), default=0.0)
    if decay <= 0 or isinstance(twin.optimizer, torch.optim.LBFGS):
        return DecayRace(0.0, 0.0, 0.0)
    rate, batches, free = float(groups[0].get("lr", 0.0)), twin.batches(BATCHES), twin.fresh()
    for group in free.optimizer.param_groups:
        group["weight_decay"] = 0.0
    dominance = _dominance(_one_step(twin.fresh(), batches[0]), _one_step(_without_decay(twin.fresh()), batches[0]))
    if dominance < WORTH_A_RACE:
        return DecayRace(decay, rate, dominance)
    held = race(twin, batches, twin.optimizer, STEPS, lambda f: control.progress(f / 2, "training with weight decay"))
    loose = race(
        free, batches, free.optimizer, STEPS, lambda f: control.progress(0.5 + f / 2, "training without weight decay")
    )
    return DecayRace(decay, rate, dominance, held, loose)


def _without_decay(twin: Twin) -> Twin:
    for group in twin.optimizer.param_groups:
        group["weight_decay"] = 0.0
    return twin


def _one_step(twin: Twin, batch: Batch) -> list[torch.Tensor]:
    """Give how far every parameter of the optimizer moves in one step."""
    seed_torch(0)
    twin.ready_to_train()
    parameters = [p for group in twin.optimizer.param_groups for p in group["params"]]
    before = [p.detach().clone() for p in parameters]
    twin.plain_step(batch)
    return [p.detach() - old for p, old in zip(parameters, before, strict=True)]


def _dominance(held: list[torch.Tensor], loose: list[torch.Tensor]) -> float:
    pull = sum(float((a - b).double().square().sum()) for a, b in zip(held, loose, strict=True))
    push = sum(float(b.double().square().sum()) for b in loose)
    return (pull / push) ** 0.5 if push > 0 else 0.0
