"""Exchange the targets and see whether the loss notices."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.loss_family import recognize
from nbdebug.experiments.loss_of_outputs import LossBox, open_box
from nbdebug.experiments.target_dependence import influence_of_target
from nbdebug.experiments.task import class_dim
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["TargetInfluence", "TargetUse", "target_influence"]


@dataclass(frozen=True)
class TargetUse:
    """How much the loss changes when one target is exchanged for others, relative to the loss."""

    name: str
    shape: tuple[int, ...]
    influence: float
    fits_output: bool


@dataclass(frozen=True)
class TargetInfluence:
    """Every target, exchanged in turn; `wants_one_answer` says that the loss wants the same class for every sample.

    `wants_own_class` says that it wants the class that the same outputs already predict.
    """

    place: str
    uses: tuple[TargetUse, ...]
    wants_one_answer: bool
    wants_own_class: bool = False


@probe
def target_influence(sandbox: Sandbox, trial: TrialRun) -> TargetInfluence:
    """Replace each target, with fixed outputs, and compare the losses."""
    require_run(trial)
    sandbox.ready_to_train()
    batches = sandbox.batches(3)
    box = open_box(sandbox, batches[0])
    if not batches[0].targets or not box.heads:
        raise NotApplicable("the batch has no separate target")
    uses = [
        TargetUse(name, tuple(target.shape), influence_of_target(box, name), _fits(box, name, batches))
        for name, target in batches[0].targets.items()
    ]
    return TargetInfluence(box.place, tuple(uses), _wants_one_answer(box), _wants_own_class(box))


def _fits(box: LossBox, name: str, batches: list[Batch]) -> bool:
    """Whether some output is made for this target: as many scores as classes, or as many numbers."""
    targets = [batch.targets[name] for batch in batches if name in batch.targets]
    target, high = targets[0], max((int(t.max()) for t in targets if t.numel()), default=0)
    for output in box.heads.values():
        dim = class_dim(output, target)
        if not target.is_floating_point() and dim is not None and output.shape[dim] == high + 1 > 1:
            return True
        if target.is_floating_point() and output.numel() == target.numel():
            return True
    return False


def _wants_one_answer(box: LossBox) -> bool:
    """Whether the loss pulls all samples to one class."""
    family = recognize(box, next(iter(box.heads)))
    if family.name != "softmax" or family.wanted is None or family.active is None or family.dim is None:
        return False
    rows = family.active.select(family.dim, 0)
    return int(family.wanted.argmax(family.dim)[rows].unique().numel()) == 1 and int(rows.sum()) >= 8


def _wants_own_class(box: LossBox) -> bool:
    """Whether the class that the loss looks up is computed from the outputs that it is compared with."""
    tape = box.taped.tape if box.taped is not None else None
    if tape is None or tape.main.comparison is None or tape.target is None or tape.target.value.is_floating_point():
        return False
    stack, seen = [tape.main.comparison.target], set[int]()
    while stack:
        number = stack.pop()
        if number in tape.main.heads:
            return True
        op = tape.recording.producer(number)
        if op is not None and number not in seen:
            stack += op.inputs
        seen.add(number)
    return False
