"""The likelihood of a normalizing flow: its log determinant against the Jacobian that is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.experiments.tape.ops import Recording
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.experiments.tape.walk import ancestors
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import required_user_code

__all__ = ["FlowLikelihood", "flow_likelihood"]

PARTS, SAMPLES, MOST = 6, 8, 64  # parts of a batch, samples in each, and numbers in a sample
CANDIDATES = 12  # values as large as the input, the last ones, that may be the code
EXACT = 1e-3  # how far the gradient may be from a multiple of the code, by rounding


@dataclass(frozen=True)
class FlowLikelihood:
    """What the loss holds beside the normal density of the code, regressed on the measured log determinant.

    `slope` is 1 where the loss subtracts the log determinant as it should, -1 where it adds it, and `correlation` says
    how well a line describes both. `is_lowered` says that the loss falls when the code gets farther from 0.
    """

    slope: float
    correlation: float
    is_lowered: bool
    size: int
    place: str


@probe
def flow_likelihood(sandbox: Sandbox) -> FlowLikelihood:
    """Measure the Jacobian from inputs to code on parts of a batch, beside the rest of the loss."""
    sandbox.ready_to_train()
    batch, step = sandbox.batch(), sandbox.train_step is not None and sandbox.compute_loss is None
    if step:
        raise NotApplicable("a training step goes backward, after which no graph is left")
    if batch.size < 2 * SAMPLES or not _entries(batch):
        raise NotApplicable("needs more samples, each of a few real numbers")
    found = []
    with required_user_code("the run fails ({kind})"), sandbox.mode(training=False):
        parts = [_free(batch.select((torch.arange(SAMPLES) + k * SAMPLES) % batch.size)) for k in range(PARTS)]
        root = next(iter(run_recorded(sandbox, parts[0], step=False).roots), None)
        if root is None:
            raise NotApplicable("the loss is not a tensor")
        for part in parts:
            found.append(_measured(sandbox, part, root))
    rests, volumes, factors, sizes = zip(*found, strict=True)
    slope, correlation = _line(torch.tensor(volumes), torch.tensor(rests))
    place = "compute_loss" if sandbox.compute_loss is not None else "loss_fn"
    return FlowLikelihood(slope, correlation, all(factor < 0 for factor in factors), sizes[0], place)


def _entries(batch: Batch) -> list[torch.Tensor]:
    found = batch.inputs.values()
    return [t for t in found if t.is_floating_point() and t.dim() > 1 and 1 < t[0].numel() <= MOST]


def _free(batch: Batch) -> Batch:
    """Return the batch with inputs that a gradient can be taken of."""
    return batch.map_inputs(lambda _, t: t.clone().requires_grad_() if t.is_floating_point() else t)


def _measured(sandbox: Sandbox, batch: Batch, root: int) -> tuple[float, float, float, int]:
    """Return the rest of the loss, the sum of all log determinants with its factor, and that factor."""
    recording = run_recorded(sandbox, batch, step=False, last=root)  # ends there, so that the loss keeps its graph
    inner = recording.values[root].tensor
    if inner is None or not inner.requires_grad or inner.numel() != 1:
        raise NotApplicable("the loss has no gradient")
    for x, code in _pairs(recording, root)[:CANDIDATES]:
        (gradient,) = torch.autograd.grad(inner, code, retain_graph=True, allow_unused=True)
        if gradient is None or not float(gradient.abs().max()) > 0:
            continue
        factor = float((gradient * code).sum() / code.square().sum().clamp_min(1e-12))
        error = float((gradient - factor * code).norm() / gradient.norm())
        if error > EXACT:
            continue
        volume = _log_determinants(code, x)
        if volume is not None:
            rest = float(inner.detach()) - factor * float(code.detach().square().sum()) / 2
            return rest, -factor * float(volume.sum()), factor, int(x[0].numel())
    raise NotApplicable("the loss is no normal density of a code as large as the inputs")


def _pairs(recording: Recording, root: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return an input with each value of its shape that was computed from it and leads to the loss, the last first."""
    used = sorted(ancestors(recording, root), reverse=True)
    kept = [recording.values[n] for n in used if recording.values[n].tensor is not None]
    leaves = [v.tensor for v in kept if v.producer < 0 and v.sources and v.tensor is not None and v.requires_grad]
    return [
        (x, v.tensor)
        for v in kept
        for x in leaves
        if v.producer >= 0 and v.tensor is not None and v.tensor.requires_grad and v.shape == tuple(x.shape)
    ]


def _log_determinants(code: torch.Tensor, x: torch.Tensor) -> torch.Tensor | None:
    rows = []
    for column in code.flatten(1).unbind(1):
        (row,) = torch.autograd.grad(column.sum(), x, retain_graph=True, allow_unused=True)
        if row is None:
            return None
        rows.append(row.flatten(1))
    found: torch.Tensor = torch.linalg.slogdet(torch.stack(rows, 1).double())[1]
    return found if bool(torch.isfinite(found).all()) else None


def _line(volumes: torch.Tensor, rests: torch.Tensor) -> tuple[float, float]:
    one, other = (side.double() - side.double().mean() for side in (volumes, rests))
    if float(one.norm()) < 1e-6 or float(other.norm()) < 1e-6:
        return math.nan, 0.0
    return float(one @ other / (one @ one)), float(one @ other / (one.norm() * other.norm()))
