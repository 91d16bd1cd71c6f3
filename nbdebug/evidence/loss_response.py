"""Ask the loss about outputs that the model never gave."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import as_far_as_it_runs
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import paths_of
from nbdebug.experiments.loss_family import Family, recognize
from nbdebug.experiments.loss_floor import Floors, floors_of, squashes_twice
from nbdebug.experiments.loss_of_outputs import LossBox, head_name, open_box
from nbdebug.experiments.output_range import Reach, over_samples, reach_of
from nbdebug.experiments.targets import TargetKind, is_likelihood, is_wanted, paired_target, target_kind
from nbdebug.experiments.task import class_dim
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import Path, at
from nbdebug.setup.sample_dataset import seed_torch
from nbdebug.setup.user_code import user_code

__all__ = ["HeadResponse", "LossResponse", "loss_response"]


@dataclass(frozen=True)
class HeadResponse:
    """One output of the model: what it can be, and what the loss makes of it.

    `family` is how the loss reads it (`experiments/loss_family.py`); softmax-twice and sigmoid-twice are losses that
    squash once more. `scale` is what the model gives: probabilities or log-probabilities over the dimensions `over`,
    or values, within `low` and `high` whatever the weights of the last layer. `floor` is the least loss that outputs
    without bounds reach on this batch, `reachable` the least within the bounds, `chance` that of equal scores.
    `offset` is the loss of outputs that are all zero, relative to its weights: a likelihood has none.
    `is_compared` says that what the loss wants was seen to be the target.
    `clipped` is the share of real outputs exactly on a bound, `one_sided` that of outputs which are on it with the last
    layer or with its negative, but not with both: an activation right behind that layer.
    `toward` is the share of the elements that the loss pulls toward their target; 0 is a loss with its sign flipped.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    class_dim: int | None
    family: str
    loss_dim: int | None
    scale: str
    over: tuple[int, ...]
    low: float
    high: float
    clipped: float
    one_sided: float
    place: str
    module: str
    seen_low: float
    seen_high: float
    target: TargetKind | None = None
    is_compared: bool = False
    floor: float | None = None
    reachable: float | None = None
    chance: float | None = None
    toward: float | None = None
    even_weights: bool = True
    wanted_low: float | None = None
    wanted_high: float | None = None
    unreachable: float = 0.0
    offset: float = 0.0

    @property
    def shortfall(self) -> float:
        """The part of the way from chance to a perfect loss that the bounds of the output forbid."""
        if self.floor is None or self.reachable is None or self.chance is None or self.chance <= self.floor:
            return 0.0
        return (self.reachable - self.floor) / (self.chance - self.floor)

    @property
    def is_bounded(self) -> bool:
        """Whether the outputs stay in a narrow range whatever the weights of the last layer are."""
        return 0 < self.high - self.low < 40

    @property
    def is_unit_interval(self) -> bool:
        """Whether all outputs stay between 0 and 1."""
        return self.low >= -1e-6 and self.high <= 1 + 1e-6 and self.high > self.low


@dataclass(frozen=True)
class LossResponse:
    """The loss asked about made-up outputs: one answer for each output that has an influence on it.

    `over_samples` names modules, with their kinds, whose outputs sum to 1 over the samples of the batch.
    """

    loss_name: str
    assumed: bool
    place: str
    heads: tuple[HeadResponse, ...]
    batch_size: int
    over_samples: tuple[tuple[str, str], ...] = ()

    @property
    def named(self) -> str:
        """The loss as a message names it; code names are in backticks."""
        name = self.loss_name if self.loss_name.startswith("the ") else f"`{self.loss_name}`"
        return f"{name} (assumed)" if self.assumed else name

    @property
    def begins(self) -> str:
        """The loss as the first words of a message."""
        return self.named[:1].upper() + self.named[1:] if self.named.startswith("the ") else self.named


BATCHES = 3
FEW = 16  # samples of each batch; what outputs can be at all shows in a few of them


@probe
def loss_response(sandbox: Sandbox, trial: TrialRun, control: Control) -> LossResponse:
    """Evaluate the loss on synthetic outputs, and the last layer with synthetic weights."""
    with as_far_as_it_runs(trial):
        return _asked(sandbox, control)


def _asked(sandbox: Sandbox, control: Control) -> LossResponse:
    sandbox.ready_to_train()
    batches = sandbox.batches(BATCHES)
    box = open_box(sandbox, batches[0], alone=True, inside=True)
    few = [_few(box, batch) for batch in batches]
    if not box.heads:
        raise NotApplicable("the model returns no real-valued tensor")
    heads = []
    for index, path in enumerate(box.heads):
        control.progress(index / len(box.heads), "evaluating the loss on synthetic outputs")
        family = recognize(box, path)
        if family.name != "constant" or (len(box.heads) == 1 and box.is_sole):
            heads.append(_head(sandbox, box, path, family, batches, few))
    if not heads:
        raise NotApplicable("no single output of the model affects the loss")
    given = {head.place for head in heads}
    inner = [item for item in over_samples(sandbox.model, few[0], box.answer) if item[0] not in {*given, "model"}]
    return LossResponse(
        _loss_name(sandbox, box), _is_assumed(sandbox), box.place, tuple(heads), batches[0].size, tuple(inner)
    )


def _few(box: LossBox, batch: Batch) -> Batch:
    """Return a part of the batch, for what takes many passes; the whole where it cannot be taken apart, as a graph."""
    part = batch.head(FEW)
    with user_code(), torch.no_grad():
        box.answer(part)
        return part
    return batch


def _head(
    sandbox: Sandbox, box: LossBox, path: Path, family: Family, batches: list[Batch], few: list[Batch]
) -> HeadResponse:
    output = box.heads[path]
    name, target = paired_target(box, path, family)
    reach = reach_of(sandbox.model, few, lambda batch: _tensor_at(box, path, batch))
    if box.taped is not None and (target is None or _pairs_samples(output, batches[0])):
        reach = replace(reach, low=-math.inf, high=math.inf)  # what compares samples has other bounds for other samples
    is_likely = target is None or box.taped is None or is_likelihood(family, target)
    is_likely = is_likely and not _is_own_function(box, family, reach)
    compared = target is not None and is_likely and is_wanted(family, target)
    dim = family.dim if compared or target is None else class_dim(output, target)
    floors = floors_of(box, path, family, reach, target, dim)
    twice = squashes_twice(box, path, target, dim) if family.name in ("differences", "other") else ""
    low, high = floors.wanted if floors.wanted is not None else (None, None)
    return HeadResponse(
        name=head_name(path),
        shape=tuple(output.shape),
        classes=int(output.shape[dim]) if dim is not None else 0,
        class_dim=dim,
        family=twice or family.name,
        loss_dim=family.dim,
        target=target_kind(name, batches, _targets(box, batches)) if target is not None else None,
        is_compared=compared or (is_likely and family.name == "linear" and floors.toward is not None),
        wanted_low=low,
        wanted_high=high,
        offset=_offset(box, path, family),
        **{**_bounds(reach), **_place(sandbox, box, reach)},
        **_levels(floors),
    )


def _place(sandbox: Sandbox, box: LossBox, reach: Reach) -> dict[str, Any]:
    """Name the module in which a taped prediction is made, where no module returns it: the run ends at its last op."""
    if box.taped is None or reach.is_returned or not box.is_sole:
        return {}
    module = box.taped.tape.tensor(box.taped.numbers[0]).module
    known = paths_of(sandbox.model)
    if module in known:
        return {"place": module, "module": type(known[module]).__name__}
    return {"place": box.place, "module": box.taped.tape.tensor(box.taped.numbers[0]).made_by}


def _targets(box: LossBox, batches: list[Batch]) -> list[torch.Tensor] | None:
    return box.taped.targets(batches) if box.taped is not None else None


def _is_own_function(box: LossBox, family: Family, reach: Reach) -> bool:
    """Whether the loss picks values of some function of its own, as a focal loss does, and not those of the model."""
    if box.taped is None or family.name != "linear" or reach.scale != "values" or 0 <= reach.low <= reach.high <= 1:
        return False
    tape = box.taped.tape
    return tape.loss_name != "nll_loss" and box.taped.numbers[0] not in tape.main.heads


def _pairs_samples(output: torch.Tensor, batch: Batch) -> bool:
    return output.dim() == 2 and output.shape[0] == output.shape[1] and output.shape[0] % batch.size == 0


def _offset(box: LossBox, path: Path, family: Family) -> float:
    if family.name != "linear" or family.weight is None:
        return 0.0
    return box.loss(path, torch.zeros_like(box.heads[path])) / float(family.weight.sum())


def _bounds(reach: Reach) -> dict[str, Any]:
    return {
        "scale": reach.scale,
        "over": reach.over,
        "low": reach.low,
        "high": reach.high,
        "seen_low": reach.seen[0],
        "seen_high": reach.seen[1],
        "clipped": reach.clipped,
        "one_sided": reach.one_sided,
        "place": reach.place,
        "module": reach.module,
    }


def _levels(floors: Floors) -> dict[str, Any]:
    return {
        "floor": floors.free,
        "reachable": floors.reachable,
        "chance": floors.chance,
        "toward": floors.toward,
        "even_weights": floors.even_weights,
        "unreachable": floors.unreachable,
    }


def _tensor_at(box: LossBox, path: Path, batch: Batch) -> torch.Tensor | None:
    seed_torch(0)
    try:
        found = at(box.answer(batch), path)
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    return found if isinstance(found, torch.Tensor) and found.is_floating_point() else None


def _loss_name(sandbox: Sandbox, box: LossBox) -> str:
    if box.place in ("compute_loss", "train_step"):
        return box.place
    if box.place == "model":
        return "the loss computed by the model"
    name = sandbox.loss_choice(box.output, box.batch).name
    return "the loss" if name == "<lambda>" else name


def _is_assumed(sandbox: Sandbox) -> bool:
    return sandbox.loss_fn is None and sandbox.setup.assumed_loss is not None and sandbox.setup.assumed_loss.assumed
