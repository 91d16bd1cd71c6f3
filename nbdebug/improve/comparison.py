"""A model against one that is known to be right: the same weights, layer by layer, until the first difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.charts import Table
from nbdebug.core.finding import plain
from nbdebug.core.torch_compat import Dropout, RunningNorm
from nbdebug.errors import BadInput, plainly
from nbdebug.improve.pairing import Weights, paired, shared_weights
from nbdebug.improve.reasons import likeliest_reason
from nbdebug.improve.replay import Call, Replay, replayed
from nbdebug.report.progress import control_shown
from nbdebug.sandbox import guarded, make_sandbox
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup import Setup

__all__ = ["Comparison", "Divergence", "Row", "compare"]


@dataclass(frozen=True)
class Row:
    """One pair of layers: how far their inputs and outputs are apart, relative to their size."""

    layer: str
    reference: str
    kind: str
    shape: tuple[int, ...]
    inputs_apart: float
    outputs_apart: float


@dataclass(frozen=True)
class Divergence:
    """The first place where the two differ: in the pass forward, or in the gradients that come back."""

    direction: str
    layer: str
    reference: str
    apart: float
    reason: str

    def __str__(self) -> str:
        """Return it as a sentence."""
        place = self.layer if self.layer.startswith(("before ", "after ")) else f"at {self.layer or 'the output'}"
        return f"{self.direction}: first differs {place} (by {self.apart:.3g}): {self.reason}"


@dataclass(frozen=True)
class Comparison:
    """What was compared and where it first differs; `divergence` is None where the two agree."""

    divergence: Divergence | None
    rows: tuple[Row, ...]
    weights: Weights
    tolerance: float
    output_apart: float

    @property
    def agrees(self) -> bool:
        """Whether outputs and gradients are the same but for rounding."""
        return self.divergence is None

    @property
    def table(self) -> Table:
        """Every pair of layers in the order of the calls."""
        rows = tuple((r.layer, r.reference, r.kind, r.shape, r.inputs_apart, r.outputs_apart) for r in self.rows)
        return Table(
            ("layer", "reference", "kind", "shape", "input difference", "output difference"), rows, "Layer by layer"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {
            "divergence": vars(self.divergence) if self.divergence else None,
            "rows": [plain(vars(row)) for row in self.rows],
            "weights": plain(vars(self.weights)),
            "tolerance": self.tolerance,
            "output_apart": plain(self.output_apart),
        }

    def __str__(self) -> str:
        """Return the verdict, how the weights were mapped, and the layers around the place."""
        verdict = str(self.divergence) if self.divergence else "the models agree, forward and backward"
        lines = [f"<nbdebug comparison: {verdict}>", f"  weights: {self.weights}"]
        lines += [f"  {row.layer:<24} {row.reference:<24} {row.outputs_apart:.3g}" for row in self.rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from nbdebug.views.page import lines, page, table

        verdict = str(self.divergence) if self.divergence else "The models agree, forward and backward."
        return page(verdict, lines([f"weights: {self.weights}"]), table(self.table.columns, self.table.rows))


@plainly
def compare(
    model: nn.Module,
    reference: nn.Module,
    batch: Any,
    loss_fn: Any = None,
    *,
    tolerance: float = 1e-4,
    share_weights: bool = True,
    progress: bool = True,
) -> Comparison:
    """Compare a model with a known-good one and name the first layer that differs, with its most likely reason.

    Both are copied; the copy of `model` gets the reference's weights, mapped by name or else by order
    (`share_weights=False` leaves them). `batch` is a batch or a loader. The passes run in eval mode in double
    precision; a difference that only the modes make is named as such.

    Args:
        model: Your model.
        reference: A model that is known to be right.
        batch: A batch or a loader.
        loss_fn: A loss, to compare gradients as well.
        tolerance: The largest relative difference that counts as equal.
        share_weights: Whether the copy of `model` gets the weights of `reference`.
        progress: Whether a progress bar is shown.
    """
    _checked(model, reference, tolerance)
    loader = batch if _is_loader(batch) else [batch]
    setups = Setup(model, loader, loss_fn), Setup(reference, loader, loss_fn)
    live = (*setups[0].live_parts(), reference)
    with control_shown(progress, "comparing layer by layer") as control:

        def experiment() -> Comparison:
            ours, theirs = (make_sandbox(setup, control) for setup in setups)
            batches = [setup.batches(1)[0] for setup in setups]
            modes = _same_modes(model, reference)
            weights = shared_weights(ours.model, theirs.model) if share_weights else Weights("unchanged")
            sandboxes = (ours, theirs)
            replays = [replayed(t, b.to(t.device)) for t, b in zip(sandboxes, batches, strict=True)]
            return _compared(replays[0], replays[1], weights, tolerance, modes)

        return guarded(experiment, live, control, snapshot=StateSnapshot(*live))


def _compared(ours: Replay, theirs: Replay, weights: Weights, tolerance: float, modes: str) -> Comparison:
    pairs = paired(ours, theirs, weights)
    rows = tuple(_row(a, b) for a, b in pairs)
    output = apart(ours.output, theirs.output)
    divergence = _forward(pairs, rows, output, ours, theirs, tolerance) or _backward(ours, theirs, weights, tolerance)
    if divergence is None and modes:
        divergence = Divergence("mode", modes, modes, 0.0, "one is in train mode and the other in eval mode")
    return Comparison(divergence, rows, weights, tolerance, output)


def _forward(
    pairs: list[tuple[Call, Call]], rows: tuple[Row, ...], output: float, ours: Replay, theirs: Replay, tolerance: float
) -> Divergence | None:
    for (a, b), row in zip(pairs, rows, strict=True):
        if row.inputs_apart > tolerance:
            reason = likeliest_reason(a.inputs, b.inputs, None, None)
            return Divergence("forward", f"before {a.path}", f"before {b.path}", row.inputs_apart, reason)
        if row.outputs_apart > tolerance:
            reason = likeliest_reason(a.output, b.output, a.module, b.module)
            return Divergence("forward", a.path, b.path, row.outputs_apart, reason)
    if output > tolerance:
        last = pairs[-1] if pairs else None
        where = (f"after {last[0].path}", f"after {last[1].path}") if last else ("", "")
        return Divergence("forward", *where, output, likeliest_reason(ours.output, theirs.output, None, None))
    return None


def _backward(ours: Replay, theirs: Replay, weights: Weights, tolerance: float) -> Divergence | None:
    """Go from the end to the beginning, as gradients do, and stop at the first that differs."""
    for name, other in reversed(weights.pairs):
        mine, known = ours.gradients.get(name), theirs.gradients.get(other)
        if (mine is None) != (known is None):
            reason = "it gets no gradient here" if mine is None else "it gets a gradient here and none in the reference"
            return Divergence("backward", name, other, float("inf"), reason)
        if mine is None or known is None:
            continue
        known = known.T if mine.shape != known.shape else known
        if apart(mine, known) > 10 * tolerance:  # gradients gather the rounding of two passes
            return Divergence("backward", name, other, apart(mine, known), likeliest_reason(mine, known, None, None))
    return None


def apart(a: torch.Tensor | None, b: torch.Tensor | None) -> float:
    """Return the largest difference relative to the reference's size; other shapes are infinitely far apart."""
    if a is None or b is None:
        return 0.0 if a is b else float("inf")
    if a.shape != b.shape:
        return float("inf")
    if a.numel() == 0:
        return 0.0
    scale = float(b.abs().double().square().mean().sqrt()) or 1.0
    difference = float((a.double() - b.double()).abs().max()) / scale
    return difference if difference == difference else float("inf")


def _row(a: Call, b: Call) -> Row:
    shape = tuple(a.output.shape) if a.output is not None else ()
    return Row(a.path, b.path, type(a.module).__name__, shape, apart(a.inputs, b.inputs), apart(a.output, b.output))


def _same_modes(model: nn.Module, reference: nn.Module) -> str:
    """Name the first module whose mode differs from the one of the same name; empty where all agree."""
    others = dict(reference.named_modules())
    for name, module in model.named_modules():
        if name in others and others[name].training != module.training and _has_modes(module):
            return name or type(module).__name__
    return ""


def _has_modes(module: nn.Module) -> bool:
    """Whether the mode matters in this module or below it."""
    moded = (Dropout, RunningNorm)
    return any(isinstance(part, moded) for part in module.modules())


def _is_loader(value: Any) -> bool:
    return hasattr(value, "dataset") or (hasattr(value, "__iter__") and hasattr(value, "batch_size"))


def _checked(model: Any, reference: Any, tolerance: float) -> None:
    for name, value in (("model", model), ("reference", reference)):
        if not isinstance(value, nn.Module):
            raise BadInput(
                f"{name} is a {type(value).__name__}",
                where="compare",
                expected="two torch.nn.Module and a batch for them",
                do="nbdebug.compare(model, reference, batch)",
            )
    if not isinstance(tolerance, (int, float)) or not tolerance > 0:
        raise BadInput(f"tolerance is {tolerance!r}", where="compare", expected="a small positive number", do="1e-4")
