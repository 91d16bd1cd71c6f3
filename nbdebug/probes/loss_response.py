"""Ask the loss about outputs that the model never gave."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.control import Control
from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence import HeadResponse, LossResponse, TrialRun
from nbdebug.probes.first_pass import as_far_as_it_runs
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_torch
from nbdebug.subject.nest import Path, at
from nbdebug.twin import Twin
from nbdebug.twin.loss_box import LossBox, head_name, open_box
from nbdebug.twin.loss_family import Family, recognise
from nbdebug.twin.loss_floor import Floors, floors_of, squashes_twice
from nbdebug.twin.reach import Reach, over_samples, reach_of
from nbdebug.twin.targets import is_wanted, paired_target, target_kind
from nbdebug.twin.task import class_dim

__all__ = ["loss_response"]

BATCHES = 3
FEW = 16  # samples of each batch; what outputs can be at all shows in a few of them


@probe
def loss_response(twin: Twin, trial: TrialRun, control: Control) -> LossResponse:
    """Evaluate the loss on synthetic outputs, and the last layer with synthetic weights."""
    with as_far_as_it_runs(trial):
        return _asked(twin, control)


def _asked(twin: Twin, control: Control) -> LossResponse:
    twin.ready_to_train()
    batches = twin.batches(BATCHES)
    box = open_box(twin, batches[0])
    few = [_few(box, batch) for batch in batches]
    if not box.heads:
        raise NotApplicable("the model returns no real-valued tensor")
    heads = []
    for index, path in enumerate(box.heads):
        control.progress(index / len(box.heads), "evaluating the loss on synthetic outputs")
        family = recognise(box, path)
        if family.name != "constant" or (len(box.heads) == 1 and box.is_sole):
            heads.append(_head(twin, box, path, family, batches, few))
    if not heads:
        raise NotApplicable("no single output of the model affects the loss")
    given = {head.place for head in heads}
    inner = [item for item in over_samples(twin.model, few[0], box.answer) if item[0] not in {*given, "model"}]
    return LossResponse(
        _loss_name(twin, box), _is_assumed(twin), box.place, tuple(heads), batches[0].size, tuple(inner)
    )


def _few(box: LossBox, batch: Batch) -> Batch:
    """Give a part of the batch, for what takes many passes; the whole where it cannot be taken apart, as a graph."""
    part = batch.head(FEW)
    try:
        with torch.no_grad():
            box.answer(part)
    except NbdebugError:
        raise
    except Exception:
        return batch
    return part


def _head(twin: Twin, box: LossBox, path: Path, family: Family, batches: list[Batch], few: list[Batch]) -> HeadResponse:
    output = box.heads[path]
    name, target = paired_target(box, path, family)
    compared = target is not None and is_wanted(family, target)
    dim = family.dim if compared or target is None else class_dim(output, target)
    reach = reach_of(twin.model, few, lambda batch: _tensor_at(box, path, batch))
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
        target=target_kind(name, batches) if target is not None else None,
        is_compared=compared or (family.name == "linear" and floors.toward is not None),
        wanted_low=low,
        wanted_high=high,
        offset=_offset(box, path, family),
        **_bounds(reach),
        **_levels(floors),
    )


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


def _loss_name(twin: Twin, box: LossBox) -> str:
    if box.place in ("compute_loss", "train_step"):
        return box.place
    if box.place == "model":
        return "the loss computed by the model"
    name = twin.loss_choice(box.output, box.batch).name
    return "the loss" if name == "<lambda>" else name


def _is_assumed(twin: Twin) -> bool:
    return twin.loss_fn is None and twin.subject.assumed_loss is not None and twin.subject.assumed_loss.assumed
