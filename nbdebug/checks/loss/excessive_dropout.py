"""Dropout that removes almost everything."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.trace import Call, traced
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["DropoutShares", "DroppedShare", "dropout_shares", "excessive_dropout"]


@dataclass(frozen=True)
class DroppedShare:
    """The share of values that training mode puts out at one place and eval mode does not."""

    path: str
    share: float
    error: float  # one standard deviation of the share
    is_source: bool = True  # False where the values were dropped earlier, and this place only receives them


@dataclass(frozen=True)
class DropoutShares:
    """Where training mode drops values, in the order of the calls."""

    places: tuple[DroppedShare, ...]


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
def dropout_shares(sandbox: Sandbox, trial: TrialRun, control: Control) -> DropoutShares:
    """Run one batch in train and eval mode and compare the fraction of constant values per module.

    Dropped values are zero, or another constant; so this sees dropout as a module and as a function alike.
    """
    require_run(trial)
    batch = sandbox.batch()
    with sandbox.mode(training=False):
        calm = _constant_shares(sandbox, batch)
    runs = []
    sandbox.model.train()
    for index in range(PASSES):
        control.progress(index / PASSES, "counting dropped values")
        runs.append(_constant_shares(sandbox, batch))
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
    return DropoutShares(tuple(each for each in dropped.values() if each.share > NOTICEABLE))


def _is_more(share: float, error: float, before: DroppedShare | None) -> bool:
    """Return whether this place drops some of what the place before had left, beyond what sampling explains."""
    if before is None:
        return True
    return share - before.share > NOTICEABLE * (1 - before.share) + 3 * math.hypot(error, before.error)


def _constant_shares(sandbox: Sandbox, batch: Batch) -> dict[Place, _Constant]:
    """Return the most frequent value's share at every module's input and output, in the order of the pass.

    The place before is the one that holds the same memory, else the one that was computed last.
    """
    shares: dict[Place, _Constant] = {}
    holders: dict[int, Place] = {}
    last: Place | None = None
    for place, tensor, handed_on in _places(traced(sandbox, batch).calls):
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


@check(basis="statistic", explains=("cannot-overfit-batch", "train-eval-gap"))
def excessive_dropout(
    dropped: DropoutShares,
    *,
    share: float = 0.78,  # p of 0.8 and more; Srivastava et al. 2014 use 0.2 for inputs and 0.5 for hidden layers
    nearly_all: float = 0.93,  # p of 0.95 and more, with the error of counting: a bug; our choice
    sigmas: float = 3.0,  # the share is counted: three standard errors; our choice
    slack: float = 0.03,  # below `share`, within which that error may reach; our choice
) -> Iterator[Finding]:
    """Dropout zeroes almost all values of a layer in training mode.

    nbdebug runs the same batch in training and in eval mode and counts, at every module, the values that only training
    mode sets to zero. It makes no difference whether dropout is a module or a function.

    Why it matters: with nine of ten values dropped, later layers see a different network at every step, and the
    signal is lost in noise. The keep probability may have been passed where the drop probability belongs.

    What to try: use 0.1 to 0.5; nn.Dropout(p) drops with probability p.
    """
    told: set[str] = set()
    for place in dropped.places:
        sure = place.share >= share and place.share - sigmas * place.error > share - slack
        if not sure or not place.is_source or place.path in told:
            continue
        told.add(place.path)  # once, however often the module is called
        yield Finding(
            f"Dropout zeroes {place.share:.0%} of the values at `{place.path}` in training mode.",
            where=place.path,
            severity="bug" if place.share > nearly_all else "suspect",
            evidence={
                "dropped": place.share,
                "error": place.error,
                "threshold": share,
                "source": "37 reasons, 30; Srivastava et al. 2014",
            },
            remedies=(Remedy("Lower the drop rate.", "nn.Dropout(0.3)", Patch("limit-dropout", {"share": 0.3})),),
            exhibit=Bars(
                tuple(p.path for p in dropped.places), tuple(p.share for p in dropped.places), band=(0.0, 0.5)
            ),
        )
