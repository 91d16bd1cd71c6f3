"""Race the exchanges: each trains a copy of its own, and what is not ahead after a third of the steps drops out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbdebug.core.control import Control
from nbdebug.engine.differential.exchanges import Exchange
from nbdebug.errors import Cancelled, NbdebugError, NotApplicable, OutOfTime
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.experiments.trial_training import HeldOut, TrialTraining, permute_weights, split_batches
from nbdebug.fixes import spec_of
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.setup import Setup
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["AHEAD", "Run", "attempt", "own_skill", "race", "repeat", "steps_of"]

HEAT = 0.35  # of the steps, after which only those ahead go on; the winner is ahead by then in 22 to 28 of 31 cases
AHEAD = 0.03  # of skill
SAME = 1e-5  # relative: an exchange with the same loss and gradient changes nothing
KEPT = 1  # copies that wait for their end; another one that is ahead is trained on at once, so that memory is bounded
FINALS = 2.0  # of the steps: kept from the heats for the best run's end and its repetition
UNTRIED = "not tried: out of time"
COMPARED = {"limit-dropout", "drop-last-activation", "replace-loss", "plain-loss"}


@dataclass
class Run:
    """One exchange that was tried: the skill it came to by so many steps, its loss curve, or why it was left out."""

    exchange: Exchange
    skill: float = math.nan
    value: float = math.nan
    measure: str = ""  # of `value`; a metric where the exchanged loss admits one and the user's own does not
    steps: int = 0
    losses: tuple[float, ...] = ()
    scores: tuple[tuple[int, float, float], ...] = ()  # step, metric and loss on held-out batches
    left_out: str = ""
    is_cut_short: bool = False  # it was ahead, and the time did not last to train it to the end

    @property
    def was_tried(self) -> bool:
        """Whether it was trained at all."""
        return not self.left_out


def race(setup: Setup, data: HeldOut, gate: LearningGate, exchanges: Sequence[Exchange], control: Control) -> list[Run]:
    """Train every exchange for a third of the steps, and those that are ahead to the end, as far as the time lasts."""
    steps, each = steps_of(gate), gate.step_cost
    heat = int(HEAT * steps)
    base = _loss_and_gradient(make_sandbox(setup, control), data)
    runs, ahead, floor = list[Run](), list[tuple[Run, TrialTraining]](), own_skill(gate) + AHEAD
    for number, exchange in enumerate(exchanges):
        run = Run(exchange)
        runs.append(run)
        if not _fits(control, each, heat + int(FINALS * steps) * bool(number)):
            run.left_out = UNTRIED
            continue
        control.progress(0.7 * number / len(exchanges), f"trying {exchange.name}")
        training = _begun(setup, data, exchange, control, base, run)
        if training is None or not _trained(training, heat, gate, control.poll, run) or run.skill < floor:
            continue
        ahead.append((run, training))
        if len(ahead) > KEPT:
            _finished(*ahead.pop(), gate, control)
    for run, training in ahead:
        if control.seconds_left > 0:  # to tell of it is to ask for the time, which would end all of this
            control.progress(0.8, f"trying {run.exchange.name}")
        _finished(run, training, gate, control)
    return runs


def _finished(run: Run, training: TrialTraining, gate: LearningGate, control: Control) -> None:
    """Train on to the end, where the time lasts."""
    steps = steps_of(gate) - training.steps
    if _fits(control, gate.step_cost, steps):
        _trained(training, steps, gate, control.poll, run)
    else:
        run.is_cut_short = True


def _fits(control: Control, each: float, steps: int) -> bool:
    return control.affordable(each, steps) >= steps and control.seconds_left > 0


def repeat(setup: Setup, data: HeldOut, gate: LearningGate, exchange: Exchange, control: Control) -> Run:
    """Train one exchange again from another random start, to the end."""
    return attempt(setup, data, gate, exchange, control, steps=steps_of(gate), seed=1)


def attempt(
    setup: Setup,
    data: HeldOut,
    gate: LearningGate,
    exchange: Exchange,
    control: Control,
    *,
    steps: int,
    seed: int = 0,
    floor: float = -math.inf,
) -> Run:
    """Train one exchange alone for so many steps, where they fit into the time; below the floor it ends early."""
    run = Run(exchange)
    if not _fits(control, gate.step_cost, steps):
        run.left_out = UNTRIED
        return run
    training = _begun(setup, data, exchange, control, None, run, seed)
    heat = int(HEAT * steps)
    if training is not None and _trained(training, heat, gate, control.poll, run) and run.skill >= floor:
        _trained(training, steps - heat, gate, control.poll, run)
    return run


def steps_of(gate: LearningGate) -> int:
    """Return the steps that an exchange is trained for: as many as the gate takes at first."""
    return max(gate.patient_steps // 3, gate.steps, 60)


def own_skill(gate: LearningGate) -> float:
    """Return the skill of the user's own training, which is to be beaten; at least that of a constant prediction."""
    known = [skill for skill in (gate.skill, gate.patient_skill) if not math.isnan(skill)]
    return max(0.0, *known) if known and gate.is_finite else 0.0


def _begun(
    setup: Setup,
    data: HeldOut,
    exchange: Exchange,
    control: Control,
    base: tuple[float, float] | None,
    run: Run,
    seed: int = 0,
) -> TrialTraining | None:
    """Make the copy with its exchange; say why where it does not apply or changes nothing."""
    try:
        changed = setup
        for remedy in exchange.remedies:
            changed = remedy.apply(changed)
        seed_all(seed)
        sandbox = make_sandbox(changed, control)
        own = data if changed.feed is setup.feed else split_batches(changed, sandbox.device, control.poll)
        if base is not None and _is_compared(exchange) and _is_same(_loss_and_gradient(sandbox, own), base):
            raise NotApplicable("it changes nothing here")
        if seed:
            permute_weights(sandbox, seed)
        return TrialTraining(sandbox, own, seed)
    except Cancelled:
        raise
    except OutOfTime:
        run.left_out = UNTRIED
    except NbdebugError as why:
        run.left_out = str(why).splitlines()[0]
    except Exception as error:  # an exchange that does not fit this program
        run.left_out = f"does not fit: {type(error).__name__}"
    return None


def _trained(training: TrialTraining, steps: int, gate: LearningGate, poll: Callable[[], None], run: Run) -> bool:
    try:
        training.advance(max(1, steps // 2), lambda _: poll())
        if training.is_finite:
            training.advance(max(1, steps - steps // 2), lambda _: poll())
    except Cancelled:
        raise
    except OutOfTime:
        if run.steps:
            run.is_cut_short = True
        else:
            run.left_out = UNTRIED
        return False
    except Exception as error:
        run.left_out = f"does not fit: {type(error).__name__}"
        return False
    run.skill, (run.measure, run.value) = _skill(training, gate, run.exchange), _measured(training, gate)
    run.steps, run.losses, run.scores = training.steps, tuple(training.losses), training.course
    return training.is_finite


def _skill(training: TrialTraining, gate: LearningGate, exchange: Exchange) -> float:
    """Return the skill; without a metric, the share of the reference's loss reduction, or of a clear one."""
    if not training.is_finite:
        return -1.0
    if training.is_measured:
        skill = training.settled_skill
        return skill if not math.isnan(skill) else -1.0
    if any(spec_of(remedy).judged_by != "loss" for remedy in exchange.remedies):
        return -1.0  # another loss function cannot be compared
    start, lowest = training.scores[0].loss, training.last.loss
    goal = gate.reference if gate.measure == "held-out loss" and math.isfinite(gate.reference) else 0.5 * start
    return (start - lowest) / max(start - goal, 1e-12) if math.isfinite(lowest) else -1.0


def _measured(training: TrialTraining, gate: LearningGate) -> tuple[str, float]:
    """Return what the training came to, by the gate's measure, or by a metric that only the exchange makes fit."""
    by_loss = gate.measure == "held-out loss" and not training.is_measured
    fit = training.last.fit if not by_loss else None
    if fit is None:
        return "held-out loss", training.last.loss
    return fit.measure if gate.measure == "held-out loss" else gate.measure, fit.value


def _is_compared(exchange: Exchange) -> bool:
    return all(patch.name in COMPARED for patch in exchange.patches)


def _loss_and_gradient(sandbox: Sandbox, data: HeldOut) -> tuple[float, float]:
    """Return the loss of the first batch and the norm of its gradient, in training mode and from one seed."""
    seed_all(0)
    sandbox.ready_to_train()
    loss = sandbox.run(data.train[0].clone()).loss
    if not loss.requires_grad:
        return float(loss), 0.0
    loss.sum().backward()
    norms = [float(p.grad.double().norm()) for p in sandbox.model.parameters() if p.grad is not None]
    sandbox.model.zero_grad(set_to_none=True)
    return float(loss.detach().sum()), math.hypot(*norms) if norms else 0.0


def _is_same(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return all(math.isclose(a, b, rel_tol=SAME) for a, b in zip(one, other, strict=True))
