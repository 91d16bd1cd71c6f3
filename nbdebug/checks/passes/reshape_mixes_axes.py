"""A view or reshape where a permute was meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape import Taint, TapeUnreadable
from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_user_code

__all__ = ["MixedAxes", "Reshapes", "mixed_axes", "reshape_mixes_axes", "reshapes"]

_RESHAPES = ("view", "reshape", "view_as", "reshape_as", "flatten", "unflatten")
_PADDED = ("cat", "pad", "concat", "hstack", "constant_pad_nd")  # before a relative shift of attention scores

Shape = tuple[int, ...]


@dataclass(frozen=True)
class MixedAxes:
    """A reshape after which a size stands at another place, although the values were not moved there.

    `before` and `after` are the sizes of the axes that it joins and splits anew; `batch_axis` says that the number of
    samples is among them.
    """

    op: str
    module: str
    input_shape: Shape
    output_shape: Shape
    before: Shape
    after: Shape
    batch_axis: bool


@dataclass(frozen=True)
class Reshapes:
    """How many reshapes lie on the way to the loss, and which of them mix axes for every batch size."""

    count: int
    mixed: tuple[MixedAxes, ...]


@probe
def reshapes(sandbox: Sandbox, trial: TrialRun | None, structure: RecordedStructure | None) -> Reshapes:
    """Record the shapes before and after every reshape, for two batch sizes."""
    if trial is not None:
        require_run(trial)
    if structure is not None and structure.lacks(*_RESHAPES):
        return Reshapes(0, ())
    sandbox.ready_to_train()
    batch = sandbox.batch()
    if batch.whole or batch.size < 3:
        raise NotApplicable("the model takes the batch in one piece only, or it has fewer than 3 samples")
    step = sandbox.train_step is not None
    with required_user_code("a run fails ({kind})", passing=()):
        one = run_recorded(sandbox, batch, step=step)
    found = [op for op in _behind_loss(one) if op.name in _RESHAPES and op.inputs and op.outputs]
    if all(_mixed(one, op) is None for op in found):
        return Reshapes(len(found), ())
    with required_user_code("a run with one sample less fails ({kind})", passing=()):
        two = run_recorded(sandbox, batch.head(batch.size - 1), step=step)
    if [op.name for op in one.ops] != [op.name for op in two.ops]:
        raise TapeUnreadable("a batch of another size takes other operations")
    pairs = [(_mixed(one, op), _mixed(two, two.ops[op.index])) for op in found]
    mixed = [_named(this, other) for this, other in pairs if this is not None and other is not None]
    return Reshapes(len(found), tuple(mixed))


def _behind_loss(recording: Recording) -> list[Op]:
    """Return the ops that the loss was computed by, in order."""
    stack, seen = list(recording.roots or recording.differentiated), set[int]()
    found: dict[int, Op] = {}
    while stack:
        number = stack.pop()
        op = recording.producer(number)
        if number in seen or op is None:
            continue
        seen.add(number)
        found[op.index] = op
        stack += op.inputs
    return [found[index] for index in sorted(found)]


def _mixed(recording: Recording, op: Op) -> MixedAxes | None:
    given, made = recording.values[op.inputs[0]], recording.values[op.outputs[0]]
    producer = recording.producer(given.number)
    if not given.taint & Taint.BATCH or (producer is not None and producer.name in _PADDED):
        return None
    group = mixed_axes(given.shape, made.shape)
    return MixedAxes(op.name, op.module, given.shape, made.shape, *group, False) if group is not None else None


def _named(one: MixedAxes, two: MixedAxes) -> MixedAxes:
    """Say whether the number of samples is among the axes: then their sizes differ between the two runs."""
    return MixedAxes(
        one.op, one.module, one.input_shape, one.output_shape, one.before, one.after, one.before != two.before
    )


def mixed_axes(before: Shape, after: Shape) -> tuple[Shape, Shape] | None:
    """Return the first group of axes between common strides that is joined and split anew with a size at another place.

    None where every axis is kept, split or joined with its neighbors.
    """
    for old, new in _groups([n for n in before if n != 1], [n for n in after if n != 1]):
        if len(old) < 2 or len(new) < 2 or not set(old) & set(new):
            continue
        if len(old) == len(new) == 2 and abs(old[0] - old[1]) == 1:
            continue  # the relative shift of attention scores
        return old, new
    return None


def _groups(old: list[int], new: list[int]) -> Iterator[tuple[Shape, Shape]]:
    i = j = 0
    while i < len(old) and j < len(new):
        start, other = i, j
        left, right = old[i], new[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right and i < len(old):
                left, i = left * old[i], i + 1
            elif right < left and j < len(new):
                right, j = right * new[j], j + 1
            else:
                return
        yield tuple(old[start:i]), tuple(new[other:j])


@check(explains=("cannot-overfit-batch", "worse-than-baseline", "batch-mixing", "model-ignores-inputs"))
def reshape_mixes_axes(shapes: Reshapes) -> Iterator[Finding]:
    """A reshape reorders axes that only a permute can reorder.

    nbdebug records the sizes before and after each view and reshape on the way to the loss, and looks for axes that are
    joined and split anew so that a size stands at another place, for two batch sizes. Splitting one axis, joining
    neighbors, and the shift of relative attention scores are left out.

    Why it matters: a reshape keeps the order of values in memory. `(batch, channels, time)` viewed as `(batch, time,
    channels)` has the right shape, but each time step holds values of other steps and channels.

    What to try: move the axis first, `x.permute(0, 2, 1)` or `x.transpose(1, 2)`, then reshape.
    """
    if not shapes.count:
        raise NotApplicable("no reshape lies on the way to the loss")
    for mixed in {(m.op, m.module, m.input_shape, m.output_shape): m for m in shapes.mixed}.values():
        severity: Severity = "bug" if mixed.batch_axis else "suspect"
        what = " samples with" if mixed.batch_axis else ""
        yield Finding(
            f"`{mixed.op}` from {mixed.input_shape} to {mixed.output_shape} mixes{what} axes {mixed.before} into "
            f"{mixed.after}: the sizes move, the values do not.",
            where=mixed.module or "loss_fn",
            severity=severity,
            evidence={
                "shape before": mixed.input_shape,
                "shape after": mixed.output_shape,
                "axes that are split anew": mixed.before,
                "axes that they become": mixed.after,
                "threshold": "a size of the group is found at another place, for two batch sizes",
                "source": "documentation of torch.Tensor.view: the data are shared, in the same order",
            },
            remedies=(Remedy("Permute the axes before the reshape.", "x = x.transpose(1, 2).reshape(x.shape[0], -1)"),),
        )
