"""A layer too narrow for the prediction task."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy, in_code
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.task import Task, task_of
from nbdebug.experiments.textbook_training import plain_adam, race
from nbdebug.experiments.trace import Call, traced, weighted_calls
from nbdebug.experiments.train_briefly import fit_asked_for
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["InformationCuts", "NarrowCut", "bottleneck_too_narrow", "information_cuts"]


@dataclass(frozen=True)
class NarrowCut:
    """A layer through which everything flows that the answer depends on, and which is narrow for what is asked."""

    path: str
    width: int
    needed: float
    reason: str


@dataclass(frozen=True)
class InformationCuts:
    """The narrow layers through which all information flows, and how well a small batch can be learned through them.

    `quality` is accuracy or explained variance after a short training on one batch, None where no cut was found.
    """

    cuts: tuple[NarrowCut, ...]
    task: str
    quality: float | None = None
    measure: str = ""
    samples: int = 0


SAMPLES = 64
STEPS = 300
RATE = 1e-2
EXPLAINED = 0.99  # of the variance of the targets


@probe(quick=False)
def information_cuts(sandbox: Sandbox, trial: TrialRun, control: Control) -> InformationCuts:
    """Swap the outputs of narrow layers between samples to find bottlenecks."""
    require_run(trial)
    batch = sandbox.batch().head(SAMPLES)
    with sandbox.mode(training=False):
        trace = traced(sandbox, batch)
        assert trace.outcome is not None
        answer, task = trace.outcome.predicted, task_of(trace.outcome.output, batch)
        if answer is None or answer.dim() < 2 or answer.shape[0] != batch.size or batch.size < 4:
            raise NotApplicable("the model returns no tensor with one row per sample")
        needed, reason = _needed(task, batch, answer)
        paths = [call.path for call in trace.calls]
        narrow = [
            (call, width)
            for call in weighted_calls(trace)
            if call.is_leaf and paths.count(call.path) == 1 and (width := _width(call, answer)) < needed
        ]
        cuts = tuple(
            NarrowCut(call.path, width, needed, reason)
            for call, width in narrow
            if _carries_all(sandbox, batch, call.path, answer)
        )
    kind = "reconstruction" if task.kind == "regression" and _gives_back(batch) else task.kind
    if not cuts:
        return InformationCuts((), kind)
    race(
        sandbox,
        [batch],
        plain_adam(sandbox, RATE),
        STEPS,
        lambda f: control.progress(f, "training through the narrow layer"),
    )
    fit = fit_asked_for(sandbox, batch)
    return InformationCuts(cuts, kind, fit.value if fit else None, fit.measure if fit else "", batch.size)


def _needed(task: Task, batch: Batch, answer: torch.Tensor) -> tuple[float, str]:
    """Return how many numbers the answer takes: bits for classes, dimensions for vectors."""
    target = batch.target
    if task.kind == "classification" and isinstance(target, torch.Tensor):
        known = target.argmax(1) if target.shape == answer.shape else target
        classes = int(known[known >= 0].unique().numel())
        return math.log2(max(classes, 1)), f"{classes} classes"
    if task.kind in ("regression", "reconstruction") and isinstance(target, torch.Tensor) and target.dim() == 2:
        values = target.double() - target.double().mean(0)
        shares = torch.linalg.svdvals(values).square().cumsum(0)
        if float(shares[-1]) > 0:
            rank = 1 + int((shares < EXPLAINED * shares[-1]).sum())
            return float(rank), f"targets of rank {rank}"
    raise NotApplicable(f"the required width is unknown for this kind of task ({task.kind})")


def _gives_back(batch: Batch) -> bool:
    """Whether the target is an input over again, as it stands or with noise: then a narrow layer is the purpose."""
    target = batch.target.double()
    spread = float((target - target.mean(0)).square().sum())
    copies = [x.double() for x in batch.inputs.values() if x.numel() == target.numel() and not x.is_complex()]
    return any(float((x.reshape(target.shape) - target).square().sum()) < 0.5 * spread for x in copies)


def _width(call: Call, answer: torch.Tensor) -> int:
    """Count the numbers that a layer gives for one answer: for a sample, or for a place of a sequence."""
    assert call.output is not None
    if call.output.dim() == 3 and answer.dim() == 3 and call.output.shape[:2] == answer.shape[:2]:
        return int(call.output.shape[2])
    return math.prod(call.output.shape[1:])


def _carries_all(sandbox: Sandbox, batch: Batch, path: str, answer: torch.Tensor) -> bool:
    """Whether turning this layer's output round among the samples turns the answers round in the same way."""

    def turn(where: str, module: nn.Module, inputs: Any, output: Any) -> Any:
        is_per_sample = isinstance(output, torch.Tensor) and output.dim() > 0
        return output.roll(1, 0) if where == path and is_per_sample else None

    with tapped(sandbox.model, after=turn):
        turned = sandbox.run(batch).predicted
    if turned is None or turned.shape != answer.shape:
        return False
    answer, turned = answer.detach(), turned.detach()
    spread = float((answer - answer.mean(0)).abs().max())
    return spread > 0 and float((turned - answer.roll(1, 0)).abs().max()) < 1e-3 * spread


@check(basis="statistic", explains=("cannot-overfit-batch", "worse-than-baseline"))
def bottleneck_too_narrow(
    cuts: InformationCuts,
    *,
    quality: float = 0.9,  # on one small batch; Full Stack Deep Learning: a correct model overfits one
    single: float = 2.0,  # bits, or four classes: training does not separate more along one axis; our choice
) -> Iterator[Finding]:
    """All information passes through a layer that is too narrow for the targets.

    nbdebug permutes the output of narrow layers across samples. Where the predictions are permuted with it, they depend
    on that layer alone. Then a copy is trained on one small batch, to see whether its width is enough.

    Why it matters: later layers cannot recover what a narrow layer discards. A single value cannot separate ten classes
    in a way that gradient descent finds.

    What to try: make the layer named wider, at least as wide as the number of classes, or add a skip connection around
    it. Autoencoders and embeddings for visualization are narrow on purpose.
    """
    for cut in sorted(cuts.cuts, key=lambda cut: cut.width)[:1]:
        on_one_axis = cuts.task == "classification" and cut.width == 1 and cut.needed > single
        enough = (cuts.quality is None or cuts.quality >= quality) and not on_one_axis
        learned = (
            f" A copy trained on {cuts.samples} samples reaches {cuts.quality:.0%} {cuts.measure}."
            if cuts.quality is not None
            else ""
        )
        yield Finding(
            f"All information passes through `{cut.path}`, which outputs {cut.width} value{'s' * (cut.width > 1)} for "
            f"{cut.reason}.{learned}",
            where=cut.path,
            severity="note" if enough or cuts.task == "reconstruction" else "suspect",
            evidence={
                "width": cut.width,
                "needed": cut.needed,
                "quality on one batch": cuts.quality if cuts.quality is not None else "not measured",
                "threshold": quality,
                "source": "37 reasons, 24; log2 of the number of classes, and the result of a short training run",
            },
            remedies=(
                Remedy(
                    "Make the layer wider.", f"{in_code(cut.path, 'self')} = nn.Linear(…, {max(16, 4 * cut.width)})"
                ),
            ),
            exhibit=Bars(("width", "required"), (float(cut.width), cut.needed), title=cut.path),
        )
