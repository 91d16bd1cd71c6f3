"""How much does training mode put out?"""

from __future__ import annotations

import math

import torch

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import DropoutShares, DroppedShare, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.trace import traced

__all__ = ["dropout_shares"]

PASSES = 3
SAMPLE = 4_000
NOTICEABLE = 0.05

Place = tuple[str, int, str]  # module, which of its calls, input or output


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
    places = []
    for place, (still, count) in calm.items():
        seen = [run[place][0] for run in runs if place in run]
        if len(seen) == PASSES and still < 0.95:
            share = (sum(seen) / PASSES - still) / (1 - still)
            if share > NOTICEABLE:
                error = math.sqrt(max(share * (1 - share), 1e-4) / (PASSES * count * (1 - still)))
                places.append(DroppedShare(place[0], share, error))
    return DropoutShares(tuple(places), len(calm))


def _constant_shares(twin: Twin, batch: Batch) -> dict[Place, tuple[float, int]]:
    """Give the share of the commonest value, and the number of values, at every module's input and output."""
    shares: dict[Place, tuple[float, int]] = {}
    times: dict[str, int] = {}
    for call in traced(twin, batch).calls:
        times[call.path] = times.get(call.path, 0) + 1
        for side, tensor in (("in", call.inputs[0] if call.inputs else None), ("out", call.output)):
            if tensor is not None and tensor.is_floating_point() and tensor.numel() >= 16:
                shares[call.path, times[call.path], side] = _commonest(tensor)
    return shares


def _commonest(tensor: torch.Tensor) -> tuple[float, int]:
    values = tensor.detach().flatten()
    if values.numel() > SAMPLE:
        values = values[torch.randint(values.numel(), (SAMPLE,), device=values.device)]
    counts = values.unique(return_counts=True)[1]
    return float(counts.max()) / values.numel(), int(values.numel())
