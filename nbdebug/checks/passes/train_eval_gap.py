"""The loss is much higher in eval mode than in training mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import FirstPass, require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import tapped
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import first_tensor
from nbdebug.setup.user_code import required_user_code

__all__ = ["ModeGap", "mode_gap", "train_eval_gap"]


@dataclass(frozen=True)
class ModeGap:
    """The loss on the same batches in both modes: as the model came, after a short training, and settled after that.

    `start` is the loss before the training, `chance` that of guessing where it is known. `first` is the first module
    whose output differs grossly between the modes in the end.
    """

    given_train: float
    given_eval: float
    chance: float | None
    start: float
    steps: int
    train: float
    eval: float
    settled: float
    first: str
    first_module: str


BATCHES, SAMPLES, STEPS, SETTLING = 8, 256, 80, 40
LOOK = 10  # steps between two looks whether enough was learned
ENOUGH = 0.4  # of the loss: four times what the check asks for, so that what is lost again stands out
SMALL = 0.25  # of what was learned: half of what the check calls lost
FEWEST_STEPS = 20


@probe(quick=False)
def mode_gap(sandbox: Sandbox, trial: TrialRun, first: FirstPass, control: Control) -> ModeGap:
    """Train briefly, update BatchNorm statistics, and compare the loss in train and eval mode."""
    require_run(trial)
    batches = sandbox.batches(min(BATCHES, max(2, SAMPLES // max(1, sandbox.batch().size))))
    given = _loss(sandbox, batches, True), _loss(sandbox, batches, False)
    if _same_in_both(sandbox, batches[0]):
        raise NotApplicable("the model behaves identically in train and eval mode")
    sandbox.ready_to_train()
    steps = _train(sandbox, batches, control, lambda loss: given[0] - loss > ENOUGH * abs(given[0]))
    after = _loss(sandbox, batches, True), _loss(sandbox, batches, False)
    settled = after[1]
    if after[1] - after[0] > SMALL * (given[0] - after[0]):  # worth a longer look
        steps += _train(sandbox, batches, control, lambda _: False, STEPS - steps)
        after = _loss(sandbox, batches, True), _loss(sandbox, batches, False)
        _settle(sandbox, batches, control)
        settled = _loss(sandbox, batches, False)
    place, module = _first_apart(sandbox, batches[0])
    return ModeGap(*given, first.chance_loss, given[0], steps, *after, settled, place, module)


def _train(
    sandbox: Sandbox, batches: list[Batch], control: Control, is_enough: Callable[[float], bool], most: int = STEPS
) -> int:
    """Train until enough was learned, and give the number of steps."""
    losses: list[float] = []
    for step in control.as_many(range(1, most + 1), part=0.4, fewest=FEWEST_STEPS):
        control.progress(0.8 * step / most, "training briefly to compare train and eval mode")
        losses.append(sandbox.plain_step(batches[step % len(batches)]))
        if step % LOOK == 0 and step > LOOK and is_enough(max(losses[-len(batches) :])):
            break
    return len(losses)


@contextmanager
def _buffers_kept(model: nn.Module) -> Iterator[None]:
    """Put statistics back that a pass in training mode moves on."""
    before = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)


@torch.no_grad()
def _loss(sandbox: Sandbox, batches: list[Batch], training: bool) -> float:
    """Return the mean loss of these batches in one mode; frozen parts stay as they are in training mode."""
    losses = []
    modes = [(module, module.training) for module in sandbox.model.modules()]
    try:
        if training:
            sandbox.ready_to_train()
        else:
            sandbox.model.eval()
        failing = f"the loss cannot be computed in {'train' if training else 'eval'} mode: {{message}}"
        with required_user_code(failing), _buffers_kept(sandbox.model):
            losses = [float(sandbox.run(batch).loss) for batch in batches]
    finally:
        for module, mode in modes:
            module.training = mode
    mean = sum(losses) / len(losses)
    if not math.isfinite(mean):
        raise NotApplicable("the loss is not finite")
    return mean


def _same_in_both(sandbox: Sandbox, batch: Batch) -> bool:
    return abs(_loss(sandbox, [batch], True) - _loss(sandbox, [batch], False)) == 0.0


@torch.no_grad()
def _settle(sandbox: Sandbox, batches: list[Batch], control: Control) -> None:
    """Let running statistics catch up with the weights, which stay as they are."""
    for step in range(SETTLING):
        control.progress(0.8 + 0.2 * step / SETTLING, "updating BatchNorm statistics")
        sandbox.run(batches[step % len(batches)])


def _first_apart(sandbox: Sandbox, batch: Batch) -> tuple[str, str]:
    """Name the first module whose output has another mean or spread in eval mode."""
    runs = []
    for training in (True, False):
        seen: dict[str, tuple[str, float, float]] = {}
        with (
            _buffers_kept(sandbox.model),
            sandbox.mode(training),
            torch.no_grad(),
            tapped(sandbox.model, after=_noting(seen)),
        ):
            sandbox.run(batch)
        runs.append(seen)
    for path, (kind, mean, spread) in runs[0].items():
        if path in runs[1]:
            _, other_mean, other_spread = runs[1][path]
            size = max(spread, other_spread, 1e-12)
            if abs(mean - other_mean) > 0.5 * size or not 0.5 < (spread + 1e-12) / (other_spread + 1e-12) < 2:
                return path, kind
    return "model", type(sandbox.model).__name__


def _noting(seen: dict[str, tuple[str, float, float]]) -> Any:
    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        tensor = first_tensor(output)
        if tensor is not None and path not in seen and tensor.is_floating_point() and tensor.numel() > 1:
            values = tensor.detach().double()
            seen[path] = type(module).__name__, float(values.mean()), float(values.std())

    return after


@check
def train_eval_gap(
    gap: ModeGap,
    *,
    lost: float = 0.5,  # TheDeepChecker: loss changed by > 50 %
    trained: float = 0.5,  # of the chance-level loss: as passed, a model that is lower is trained; our choice
    learned: float = 0.1,  # of the first loss, in the short training: less cannot be compared; our choice
) -> Iterator[Finding]:
    """The loss is much higher in eval mode than in training mode, on the same data.

    nbdebug trains a copy briefly, lets the running statistics converge, and compares the loss on the same batches in
    both modes. What counts is the fraction of the improvement that is lost in eval mode.

    Why it matters: inference runs in eval mode. Running statistics that do not match the batches, or code that behaves
    differently when `self.training` is False, make a well-trained model useless.

    What to try: check the module named: the momentum and batch size of BatchNorm, one normalization layer shared by
    different kinds of data, and branches on `self.training`.
    """
    given = _share(gap.given_train, gap.given_eval, gap.chance, trained)
    if given is not None and given > lost:
        yield _finding(gap, given, lost, "suspect", gap.given_train, gap.given_eval, "As passed, ")
        return
    fell = gap.start - gap.train
    if fell <= 0 or fell < learned * abs(gap.start):
        raise NotApplicable(f"{gap.steps} training steps did not lower the loss, so there is nothing to compare")
    settled = (gap.settled - gap.train) / fell
    if settled > lost:
        text = f"After {gap.steps} training steps, "
        yield _finding(gap, settled, lost, "suspect", gap.train, gap.settled, text)
    elif (gap.eval - gap.train) / fell > lost:
        text = f"After {gap.steps} steps, before the running statistics converged, "
        yield _finding(gap, (gap.eval - gap.train) / fell, lost, "note", gap.train, gap.eval, text)


def _share(train: float, evaluated: float, chance: float | None, trained: float) -> float | None:
    """Return the fraction of the improvement over chance lost in eval mode; None for an untrained model."""
    if chance is None or train > trained * chance or chance <= 0:
        return None
    return (evaluated - train) / (chance - train)


def _finding(
    gap: ModeGap, share: float, limit: float, severity: Severity, train: float, evaluated: float, when: str
) -> Finding:
    return Finding(
        f"{when}the loss is {train:.3g} in training mode but {evaluated:.3g} in eval mode ({min(share, 9.99):.0%} of "
        f"the improvement lost). The modes first differ at `{gap.first}` ({gap.first_module}).",
        where=gap.first,
        severity=severity,
        evidence={
            "training mode": train,
            "eval mode": evaluated,
            "share lost": share,
            "threshold": limit,
            "source": "TheDeepChecker: loss changed by more than 50 % between the modes",
        },
        remedies=(
            Remedy(
                "Use a momentum that lets the running statistics follow the batches.",
                "nn.BatchNorm2d(channels, momentum=0.1)",
                Patch("norm-momentum"),
            ),
            Remedy("Use a normalization without running statistics.", "nn.GroupNorm(8, channels)", Patch("group-norm")),
        ),
        exhibit=Bars(("training mode", "eval mode"), (train, evaluated), "Loss on the same batches"),
    )
