"""The gate: does the user's own training learn, is it slow, or does it fail?

Nothing else can tell a problem from a peculiarity: what looks odd in a training that learns does no harm. Skill is
measured on held-out batches and compared with what is achievable: by scikit-learn on the same samples, and by the same
network under a textbook recipe. "Fails" is said only after three times the steps, and with two random starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.core.remedy import Patch, Remedy
from nbdebug.errors import NbdebugError, NotApplicable, OutOfTime
from nbdebug.evidence.baselines import Baselines
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.split_fits import SplitFit, split_fits
from nbdebug.experiments.train_briefly import with_loss
from nbdebug.experiments.trial_training import HeldOut, Score, TrialTraining, permute_weights, split_batches
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.setup import Setup
from nbdebug.setup.user_code import required_user_code

__all__ = ["LearningGate", "Verdict", "learning_gate", "patched_by"]

Verdict = Literal["learns", "slow", "fails", "unknown"]


@dataclass(frozen=True)
class LearningGate:
    """How the user's own training comes out, against what is achievable.

    `skill` is the metric on held-out batches after `steps` steps, with a constant prediction at 0 and a perfect one at
    1; `patient_skill` the same after `patient_steps`. Where no metric fits, `measure` is "held-out loss" and the skill
    is the share of the reference's loss reduction. `value`, `patient_value` and `chance` are the metric itself.
    """

    verdict: Verdict
    measure: str
    steps: int
    skill: float
    value: float
    chance: float
    patient_steps: int
    patient_skill: float
    patient_value: float
    reference: float
    reference_name: str
    is_finite: bool = True
    losses: tuple[float, ...] = ()
    scores: tuple[tuple[int, float, float], ...] = ()  # step, metric and loss on held-out batches
    reference_losses: tuple[float, ...] = ()
    reason: str = ""
    step_cost: float = 0.0  # seconds, which decide how much else is tried, and no verdict
    splits: tuple[SplitFit, ...] = ()  # how well the trained copy predicts the other splits, where it has learned

    @property
    def depends_on_start(self) -> bool:
        """Whether the training fails from the weights as they are, and learns from other ones."""
        return self.verdict == "slow" and self.reason == ONE_START


ONE_START = "one of two random starts learns"
STEPS = 240
FEWEST_STEPS = 60  # shorter runs of convolutions say nothing
PATIENCE = 3  # differential.md: without it, 20 of 63 sound programs look broken; with it 5
LOOKS = 4  # measurements during the first steps, so that what learns ends early
WHOLE = 10  # times the first steps: what the gate takes where nothing learns (references, patience, another start)
PART = 0.6  # of the time left, for all of that; the rest is for finding the cause
ACHIEVABLE = 0.2  # skill that some training has to reach before a training without it fails
HALF = 0.5  # of what is achievable
CLEAR_FALL = 0.1  # of the first held-out loss: a reduction that a training without a metric is judged by

PLAIN = Patch("plain-loop")
ADAM = Patch("textbook-optimizer")
STANDARDIZED = Patch("standardize-inputs")
HEAD = (Patch("drop-last-activation"), Patch("replace-loss", {"loss": "usual"}))
RELU = Patch("relu-activations")
RECIPES: tuple[tuple[str, tuple[Patch, ...]], ...] = (
    ("Adam and a plain training step", (PLAIN, ADAM)),
    ("standardized inputs, Adam and a plain training step", (STANDARDIZED, PLAIN, ADAM)),
    ("a textbook recipe with the usual loss", (STANDARDIZED, PLAIN, *HEAD, ADAM)),
    ("a textbook recipe with the usual loss and ReLU", (STANDARDIZED, PLAIN, *HEAD, RELU, ADAM)),
)

Tell = Callable[[float], None]


@probe(quick=False, share=1.0)
def learning_gate(
    sandbox: Sandbox, trial: TrialRun | None, baselines: Baselines | None, control: Control
) -> LearningGate:
    """Train in your own way and compare with what is achievable."""
    if trial is not None:
        require_run(trial)
    elif sandbox.train_step is None:
        raise NotApplicable("the model cannot be run without your training step, and none was passed")
    with required_user_code("your training fails on a later batch ({kind}: {message})"):
        data = split_batches(sandbox.setup, sandbox.device, control.poll)
        own = TrialTraining(sandbox, data)
        steps = _first_steps(own, control)
    achieved = baselines.gain if baselines is not None and own.is_measured else math.nan
    if own.is_measured:
        return _by_metric(own, steps, achieved, baselines.best if baselines is not None else "", control)
    return _by_loss(own, steps, control)


def _require(control: Control, each: float, steps: int, why: str) -> None:
    """Raise where so many steps take longer than the time that is left, before they are begun."""
    if control.affordable(each, steps) < steps:
        raise OutOfTime(why)


def patched_by(setup: Setup, patches: Sequence[Patch]) -> Setup:
    """Return a setup with these patches, without those that do not apply."""
    for patch in patches:
        try:
            setup = Remedy("", patch=patch).apply(setup)
        except NbdebugError:
            continue
    return setup


def _first_steps(own: TrialTraining, control: Control) -> int:
    """Train until a good half is learned or the steps are over; a slow model takes fewer steps."""
    own.advance(5)
    own.seconds, begun = 0.0, own.steps
    own.advance(5)
    each = own.seconds / max(own.steps - begun, 1) + LOOKS * own.scoring / STEPS
    fit = control.affordable(each, WHOLE * STEPS, part=PART) // WHOLE
    steps = min(STEPS, max(FEWEST_STEPS, fit))
    _require(control, each, steps, f"{steps} training steps do not fit")
    own.step_cost = each
    for look in range(1, LOOKS + 1):
        goal = steps * look // LOOKS
        own.advance(goal - own.steps, _teller(own, control, (look - 1) / LOOKS, 1 / LOOKS, "your training"))
        if not own.is_finite or own.last.skill >= HALF:
            break
    return steps


def _by_metric(own: TrialTraining, steps: int, achieved: float, baseline: str, control: Control) -> LearningGate:
    first = own.last
    if own.settled_skill >= HALF:
        return _said("learns", own, first, first, 1.0, "a perfect prediction")
    late = f"it has not learned after {own.steps} steps, and what is achievable"
    _require(control, own.step_cost, steps, f"{late} takes {steps} steps more than fit")
    losses: tuple[float, ...] = ()
    reference, name = achieved, f"scikit-learn ({baseline})"
    for recipe, patches in RECIPES:
        if reference >= HALF:
            break
        trained = _reference(own, patches, steps, control, recipe)
        if trained is not None and not (trained.best_skill <= reference):
            reference, name, losses = trained.best_skill, recipe, tuple(trained.losses)
    if own.is_finite and own.settled_skill >= HALF * max(reference, ACHIEVABLE):
        return _said("learns", own, first, first, reference, name, "", losses)
    if math.isnan(reference) or reference < ACHIEVABLE:
        reason = "neither scikit-learn nor a textbook recipe predicts held-out samples better than a constant"
        return _said("unknown", own, first, first, reference, name, reason, losses)
    return _with_patience(own, first, steps, reference, name, losses, control)


def _with_patience(
    own: TrialTraining,
    first: Score,
    steps: int,
    reference: float,
    name: str,
    losses: tuple[float, ...],
    control: Control,
) -> LearningGate:
    """Train on to three times the steps, and once more from another start, before anything is called a failure."""
    goal = HALF * reference
    longer = (2 * PATIENCE - 1) * steps - max(0, own.steps - steps)
    late = f"it has not learned after {own.steps} steps, and three times the steps from two random starts do not fit"
    _require(control, own.step_cost, longer, late)
    _train_on(own, PATIENCE * steps, goal, control, "your training, three times as long")
    if own.is_finite and own.settled_skill >= goal:
        return _said("slow", own, first, own.last, reference, name, "", losses)
    other = TrialTraining(own.sandbox.fresh(), own.data, seed=1)
    permute_weights(other.sandbox, seed=1)
    _train_on(other, PATIENCE * steps if own.is_finite else steps, goal, control, "your training with another seed")
    if other.is_finite and other.best_skill >= goal:
        return _said("slow", own, first, own.last, reference, name, ONE_START, losses)
    return _said("fails", own, first, own.last, reference, name, "", losses)


def _train_on(training: TrialTraining, steps: int, goal: float, control: Control, text: str) -> None:
    looks = LOOKS * PATIENCE
    for look in range(looks):
        left = steps - training.steps
        if left <= 0 or not training.is_finite or training.last.skill >= goal:
            return
        chunk = max(1, min(left, steps // looks))
        training.advance(chunk, _teller(training, control, look / looks, 1 / looks, text))


def _teller(training: TrialTraining, control: Control, start: float, width: float, text: str) -> Tell:
    """Return what tells the progress of one stretch of a training, with its newest loss."""
    return lambda fraction: control.progress(start + width * fraction, with_loss(text, training.losses))


def _reference(
    own: TrialTraining, patches: tuple[Patch, ...], steps: int, control: Control, text: str
) -> TrialTraining | None:
    """Train the same network under a recipe; None where it cannot be."""
    try:
        setup = patched_by(own.sandbox.setup, patches)
        sandbox = make_sandbox(setup, control)
        training = TrialTraining(sandbox, _data_of(setup, own, control))
        _train_on(training, steps, math.inf, control, text)
        return training
    except OutOfTime:
        raise
    except Exception:  # a recipe that does not fit this program is no reference
        return None


def _data_of(setup: Setup, own: TrialTraining, control: Control) -> HeldOut:
    """Return the same split of the same batches; they are drawn again only where the recipe changes them."""
    if setup.feed is own.sandbox.setup.feed:
        return own.data
    return split_batches(setup, own.sandbox.device, control.poll)


def _by_loss(own: TrialTraining, steps: int, control: Control) -> LearningGate:
    """Judge by the held-out loss, where no metric fits: it has to fall, at least half as far as under the recipe."""
    start, first = _loss_at(own, 0), own.last
    if not own.is_finite:
        other = TrialTraining(own.sandbox.fresh(), own.data, seed=1)
        _train_on(other, steps, math.inf, control, "your training with another seed")
        verdict: Verdict = "unknown" if other.is_finite else "fails"
        return _said(verdict, own, first, first, math.nan, "", "the loss is not finite")
    if math.isnan(start) or math.isnan(first.loss):
        start, end = _ends(own.losses)
        fell = end < start - CLEAR_FALL * abs(start)
        reason = "judged by the loss that the training step returns"
        return _said("learns" if fell else "unknown", own, first, first, math.nan, "", reason)
    if first.loss < start - CLEAR_FALL * abs(start):
        return _said("learns", own, first, first, math.nan, "", "judged by the held-out loss")
    reference = _reference(own, (PLAIN, ADAM), steps, control, RECIPES[0][0])
    lowest = min((score.loss for score in reference.scores), default=math.nan) if reference is not None else math.nan
    if math.isnan(lowest) or not lowest < start - CLEAR_FALL * abs(start):
        return _said("unknown", own, first, first, math.nan, "", "the held-out loss falls under no recipe")
    _train_on(own, PATIENCE * steps, math.inf, control, "your training, three times as long")
    half = start - HALF * (start - lowest)
    reached = min(score.loss for score in own.scores)
    assert reference is not None
    losses = tuple(reference.losses)
    verdict = "learns" if first.loss <= half else "slow" if reached <= half else "fails"
    return _said(verdict, own, first, own.last, lowest, RECIPES[0][0], "judged by the held-out loss", losses)


def _loss_at(training: TrialTraining, place: int) -> float:
    return training.scores[place].loss


def _ends(losses: Sequence[float]) -> tuple[float, float]:
    """Return the mean of the first and of the last tenth."""
    tenth = max(1, len(losses) // 10)
    return sum(losses[:tenth]) / tenth, sum(losses[-tenth:]) / tenth


def _said(
    verdict: Verdict,
    own: TrialTraining,
    first: Score,
    last: Score,
    reference: float,
    name: str,
    reason: str = "",
    reference_losses: tuple[float, ...] = (),
) -> LearningGate:
    fit, late = first.fit, last.fit
    return LearningGate(
        verdict=verdict,
        measure=fit.measure if fit is not None else "held-out loss",
        steps=first.step,
        skill=first.skill,
        value=fit.value if fit is not None else first.loss,
        chance=fit.chance if fit is not None else _loss_at(own, 0),
        patient_steps=last.step,
        patient_skill=last.skill,
        patient_value=late.value if late is not None else last.loss,
        reference=reference,
        reference_name=name,
        is_finite=own.is_finite,
        losses=tuple(own.losses),
        scores=own.course,
        reference_losses=reference_losses,
        reason=reason,
        step_cost=own.step_cost,
        splits=split_fits(own.sandbox, own.data.test) if verdict in ("learns", "slow") and own.is_measured else (),
    )
