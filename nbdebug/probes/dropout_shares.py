"""How much does training mode put out?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import DropoutShares, DroppedShare, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.trace import Call, traced

__all__ = ["dropout_shares"]

PASSES = 3
SAMPLE = 4_000
NOTICEABLE = 0.05

Place = tuple[str, int, str]  # module, which of its calls, input or output


@dataclass(frozen=True)
class _Constant:
    """The share of the most frequent value at one place, and the place that its values come from."""

    share: float
    count: int
    before: Place | None


@probe(quick=False)
def dropout_shares(twin: Twin, trial: TrialRun, control: Control) -> DropoutShares:
    """Run one batch in train and eval mode and compare the fraction of constant values per module.

    Dropped values are zero, or another constant; so this sees dropout as a module and as a function alike.
    """
    require_run(trial)
    batch = twin.batch()
    with twin.mode(training=False):
        calm = _constant_shares(twin, batch)
    runs = []
    twin.model.train()
    for index in range(PASSES):
        control.progress(index / PASSES, "counting dropped values")
        runs.append(_constant_shares(twin, batch))
    if not calm:
        raise NotApplicable("no module of the model returns a tensor")
    dropped: dict[Place, DroppedShare] = {}
    for place, still in calm.items():
        seen = [run[place].share for run in runs if place in run]
        if len(seen) == PASSES and still.share < 0.95:
            share = (sum(seen) / PASSES - still.share) / (1 - still.share)
            error = math.sqrt(max(share * (1 - share), 1e-4) / (PASSES * still.count * (1 - still.share)))
            before = dropped.get(still.before) if still.before else None
            dropped[place] = DroppedShare(place[0], share, error, _is_more(share, error, before))
    return DropoutShares(tuple(each for each in dropped.values() if each.share > NOTICEABLE), len(calm))


def _is_more(share: float, error: float, before: DroppedShare | None) -> bool:
    """Return whether this place drops some of what the place before had left, beyond what sampling explains."""
    if before is None:
        return True
    return share - before.share > NOTICEABLE * (1 - before.share) + 3 * math.hypot(error, before.error)


def _constant_shares(twin: Twin, batch: Batch) -> dict[Place, _Constant]:
    """Return the most frequent value's share at every module's input and output, in the order of the pass.

    The place before is the one that holds the same memory, else the one that was computed last.
    """
    shares: dict[Place, _Constant] = {}
    holders: dict[int, Place] = {}
    last: Place | None = None
    for place, tensor, handed_on in _places(traced(twin, batch).calls):
        if not tensor.is_floating_point() or tensor.numel() < 16:
            continue
        before = holders.get(_memory(tensor), last)
        shares[place] = _Constant(*_commonest(tensor), before)
        holders[_memory(handed_on)] = last = place
    return shares


def _places(calls: Sequence[Call]) -> Iterator[tuple[Place, torch.Tensor, torch.Tensor]]:
    """Yield what goes into and comes out of every module as the pass computes it; calls come as they ended."""
    to_begin = sorted(calls, key=lambda call: call.began)
    times: dict[int, int] = {}
    counted: dict[str, int] = {}
    for call in to_begin:
        times[call.began] = counted[call.path] = counted.get(call.path, 0) + 1
    begun = 0
    for ended in calls:
        while begun < len(to_begin) and to_begin[begun].began <= ended.began:
            call = to_begin[begun]
            begun += 1
            if call.inputs:
                yield (call.path, times[call.began], "in"), call.inputs[0], call.inputs[0]
        if ended.output is not None:
            handed_on = ended.passed if ended.passed is not None else ended.output
            yield (ended.path, times[ended.began], "out"), ended.output, handed_on


def _memory(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage, which views share; 0 where there is none to compare."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # sparse and wrapped tensors
        return 0


def _commonest(tensor: torch.Tensor) -> tuple[float, int]:
    values = tensor.detach().flatten()
    if values.numel() > SAMPLE:
        values = values[torch.randint(values.numel(), (SAMPLE,), device=values.device)]
    counts = values.unique(return_counts=True)[1]
    return float(counts.max()) / values.numel(), int(values.numel())
