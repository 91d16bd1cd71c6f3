"""Outputs and targets are broadcast against each other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.experiments.broadcast_targets import broadcast_target
from nbdebug.experiments.loss_of_outputs import LossBox, open_box
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import Path
from nbdebug.setup.user_code import required_user_code, user_code

__all__ = ["TargetAlignment", "incompatible_target_shape", "target_alignment"]


@dataclass(frozen=True)
class TargetAlignment:
    """Whether each output is compared with the target of its own sample.

    `spill` is the share of a sample's target that pulls at the outputs of other samples, `fixed` the same after the
    target was reshaped as `reshape` says ("" where no reshaping helps). `error` is what the loss says to the targets as
    they are, `warning` what PyTorch says about their size.
    """

    name: str
    output_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    spill: float
    reshape: str = ""
    fixed: float = math.nan
    error: str = ""
    warning: str = ""
    assumed: bool = False


Reshape = Callable[[torch.Tensor], torch.Tensor]
SAMPLES = 12
RESHAPES: dict[str, Reshape] = {
    "target.unsqueeze(1)": lambda t: t.unsqueeze(1),
    "target.unsqueeze(-1)": lambda t: t.unsqueeze(-1),
    "target.squeeze(1)": lambda t: t.squeeze(1) if t.dim() > 1 else t,
    "target.squeeze(-1)": lambda t: t.squeeze(-1) if t.dim() > 1 else t,
}


@probe
def target_alignment(sandbox: Sandbox) -> TargetAlignment:
    """Change the target of one sample and find which outputs get its gradient."""
    batch = sandbox.batch().head(SAMPLES)
    found = broadcast_target(sandbox, batch)
    if found is None or not found.fixed < 0.01:
        return _by_batch(sandbox, batch)
    name, how = next(iter(batch.targets), ""), "target.view_as(output)"
    return TargetAlignment(name, found.output_shape, found.target_shape, found.spill, how, found.fixed)


def _by_batch(sandbox: Sandbox, batch: Batch) -> TargetAlignment:
    """Measure it with the targets as they are in the batch."""
    if len(batch.targets) != 1:
        raise NotApplicable("the batch has no separate target, or several")
    (name, target), size = next(iter(batch.targets.items())), batch.size
    if size < 3 or target.dim() == 0 or target.shape[0] != size or target.is_complex():
        raise NotApplicable("the target has no batch dimension, or too few samples")
    with required_user_code("the model returns no output for the loss ({kind})", passing=()):
        with sandbox.mode(training=False):
            box = open_box(sandbox, batch)
        head = next(((p, o) for p, o in box.heads.items() if o.shape[0] == size), None)
    if head is None:
        raise NotApplicable("the output has no batch dimension")
    path, output = head
    values = _outputs(output, target)
    alignment = TargetAlignment(
        name, tuple(output.shape), tuple(target.shape), _spill(box, path, values),
        error=box.error(), warning=_warning(box),
        assumed=sandbox.loss_fn is None and box.place == "loss_fn",
    )  # fmt: skip
    if output.shape == target.shape or alignment.spill < 0.01:
        return alignment
    fixed = {key: _spill(_reshaped(box, change), path, values) for key, change in _helpful(output, target).items()}
    best = min(fixed, key=lambda key: fixed[key], default="")
    return replace(alignment, reshape=best, fixed=fixed[best]) if best and fixed[best] < 0.01 else alignment


def _helpful(output: torch.Tensor, target: torch.Tensor) -> dict[str, Reshape]:
    """Leave out reshapings that change nothing; where the sizes agree, the output's own shape comes first."""
    found = {key: change for key, change in RESHAPES.items() if change(target).shape != target.shape}
    if output.numel() == target.numel():
        same = {key: change for key, change in found.items() if change(target).shape == output.shape}
        return same or {"target.view_as(output)": lambda t: t.reshape(output.shape)}
    return found


def _outputs(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Make up outputs of the size of the targets that any loss accepts, probabilities included."""
    values = 0.1 + 0.8 * torch.rand(output.shape, dtype=output.dtype, device=output.device)
    if target.is_floating_point() and (float(target.min()) < 0 or float(target.max()) > 1):
        return values * float(target.std().nan_to_num(1.0)) + float(target.mean())
    return values


def _spill(box: LossBox, path: Path, values: torch.Tensor) -> float:
    """Return the share of the change of the gradient, when one target changes, that falls on other samples' outputs."""
    target = next(iter(box.batch.targets.values()))
    shares = []
    for index, reach in ((0, 0.0), (len(target) // 2, 0.0), (0, 5.0)):
        batches = _extremes(box.batch, target, index, reach)
        gradients = [replace(box, batch=b).gradient(path, values)[1] for b in batches]
        if any(g is None for g in gradients):
            return float("nan")
        change = (gradients[0] - gradients[1]).abs().reshape(len(values), -1).sum(1)  # type: ignore[operator]
        if float(change.sum()) > 0:
            shares.append(1 - float(change[index] / change.sum()))
    return max(shares) if shares else float("nan")


def _extremes(batch: Batch, target: torch.Tensor, index: int, reach: float) -> list[Batch]:
    """Return two batches in which one sample has the lowest and the highest target there is, or one beyond."""
    low, high = target.min(), target.max()
    if target.is_floating_point() and (float(low) < 0 or float(high) > 1):
        low, high = low - reach * (high - low), high + reach * (high - low)
    changed = []
    for value in (low, high):
        new = target.clone()
        new[index] = value
        changed.append(batch.map_targets(lambda _, __, new=new: new))  # type: ignore[misc]
    return changed


def _reshaped(box: LossBox, change: Reshape) -> LossBox:
    """Return the box with reshaped targets; the spill is then measured on them."""
    return replace(box, batch=box.batch.map_targets(lambda _, t: change(t)))


def _warning(box: LossBox) -> str:
    """Return what PyTorch says about a target whose size is not that of the output."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with user_code(passing=()):
            box.evaluate(box.output, box.batch)
            return next((str(w.message).splitlines()[0] for w in said if "target size" in str(w.message)), "")
    return ""


SOURCE = "in a per-sample loss, a target affects the gradient of its own output only"


@check(explains=("forward-fails", "cannot-overfit-batch", "worse-than-baseline", "loss-ignores-targets",
                 "model-ignores-inputs", "initial-loss-off", "invalid-labels"))  # fmt: skip
def incompatible_target_shape(
    alignment: TargetAlignment | None,
    operands: LossOperands | None,
    *,
    spill: float = 0.3,  # fraction of a target's gradient effect on other samples; our choice, 0 when the shapes match
) -> Iterator[Finding]:
    """Outputs and targets have different shapes and are silently broadcast.

    nbdebug keeps the outputs fixed, changes the target of one sample, and measures which outputs get another loss
    gradient. If other samples are affected, and no longer are once the target is reshaped, the shapes were broadcast:
    (N,) against (N, 1) becomes N × N. A loss that compares samples on purpose affects others in every shape. Of
    any two columns in a recorded run, as of weights and errors, it reports squares that are averaged as a whole.

    Why it matters: every output is compared with every target, so the best the model can do is predict the mean for all
    samples. The loss falls at first, and nothing fails.

    What to try: give both the same shape, `output.squeeze(1)` or `target.unsqueeze(1)`, and assert that they match.
    """
    found = list(_of_outputs(alignment, spill)) if alignment is not None else []
    yield from found
    if operands is not None and operands.paired and not any(finding.severity != "note" for finding in found):
        yield _of_columns(operands)
    elif alignment is None and operands is None:
        raise NotApplicable("neither the outputs nor a run of the loss could be followed")


def _of_columns(operands: LossOperands) -> Finding:
    """Return the finding for two columns of any kind that meet in different shapes."""
    pairs = operands.paired[0]
    one, other = pairs.shapes
    return Finding(
        f"`{pairs.op}` broadcasts {one} and {other} to a square of all pairs of {operands.samples} samples, and the "
        "loss averages over it.",
        where=operands.place,
        severity="suspect",
        evidence={
            "shapes": [one, other],
            "op": pairs.op,
            "threshold": "one value per sample on both sides, and no op reads the pairs one by one",
            "source": "PyTorch's broadcasting semantics: (N,) and (N, 1) give (N, N)",
        },
        remedies=(Remedy("Give both the same shape.", "loss = (weights.squeeze(-1) * errors).mean()"),),
    )


def _of_outputs(alignment: TargetAlignment, spill: float) -> Iterator[Finding]:
    """Yield the finding for outputs and targets of the batch."""
    shapes = f"outputs {alignment.output_shape} and targets {alignment.target_shape}"
    evidence = {"output": alignment.output_shape, "target": alignment.target_shape, "source": SOURCE}
    if alignment.output_shape == alignment.target_shape:
        return
    if alignment.reshape and alignment.spill > spill:
        yield Finding(
            f"The loss broadcasts {shapes}: {alignment.spill:.0%} of a target's effect falls on other samples "
            f"({alignment.fixed:.0%} with `{alignment.reshape}`).",
            where=alignment.name,
            severity="note" if alignment.assumed else "bug",
            evidence={**evidence, "pull at others": alignment.spill, "reshaped": alignment.fixed, "threshold": spill},
            remedies=(
                Remedy(
                    "Give outputs and targets the same shape.",
                    f"loss_fn(output, {alignment.reshape})",
                    Patch("shape-target"),
                ),
            ),
            exhibit=Bars(
                ("current shapes", alignment.reshape),
                (alignment.spill, alignment.fixed),
                title="Effect on other samples",
            ),
        )
    elif alignment.warning and not alignment.assumed:
        yield Finding(
            f"The loss broadcasts {shapes}, and PyTorch warns: {alignment.warning}",
            where=alignment.name,
            severity="suspect",
            evidence={**evidence, "pull at others": alignment.spill, "threshold": spill},
            remedies=(
                Remedy(
                    "Give outputs and targets the same shape.",
                    "assert output.shape == target.shape",
                    Patch("shape-target"),
                ),
            ),
        )
    elif alignment.error and _differ_by_ones(alignment):
        yield Finding(
            f"The loss rejects {shapes}: {alignment.error.splitlines()[0]}",
            where=alignment.name,
            evidence={**evidence, "error": alignment.error, "threshold": 0},
            remedies=(
                Remedy(
                    "Give outputs and targets the same shape.",
                    "loss_fn(output, target.view_as(output))",
                    Patch("shape-target"),
                ),
            ),
        )


def _differ_by_ones(alignment: TargetAlignment) -> bool:
    """Return whether the shapes are equal except for dimensions of size 1."""
    output, target = ([n for n in shape if n != 1] for shape in (alignment.output_shape, alignment.target_shape))
    return output == target
