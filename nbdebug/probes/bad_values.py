"""Do NaN and infinity in the data come through to the prediction and the loss?"""

from __future__ import annotations

from itertools import islice

import torch

from nbdebug.errors import NbdebugError
from nbdebug.evidence import BadValuesReach, LoaderSweep
from nbdebug.registry import probe
from nbdebug.subject import Batch, Subject
from nbdebug.twin import Twin

__all__ = ["bad_values"]


@probe
def bad_values(twin: Twin, sweep: LoaderSweep) -> BadValuesReach:
    """Run the model on a sample with NaN or Inf and test whether the output is finite."""
    ill = {role: [p for p in sweep.parts if p.role == role and p.bad] for role in ("input", "target")}
    if not any(ill.values()):
        return BadValuesReach(reason="all values are finite")
    swallowed: dict[str, bool | None] = {"input": None, "target": None}
    try:
        for role, parts in ill.items():
            if parts and parts[0].first_bad is not None:
                swallowed[role] = _is_swallowed(twin, role, parts[0].first_bad)
    except NbdebugError:
        raise
    except Exception as error:
        return BadValuesReach(reason=f"the model fails on such a sample: {type(error).__name__}: {error}")
    return BadValuesReach(swallowed["input"], swallowed["target"])


def _is_swallowed(twin: Twin, role: str, index: int) -> bool | None:
    batch = _batch_with(twin.subject, role, index)
    if batch is None:
        return None
    with twin.mode(training=False), torch.no_grad():
        outcome = twin.run(batch.to(twin.device))
    # The prediction may be only the last of several answers of which the loss is made, so the loss is asked as well.
    asks_loss = role == "target" or _all_finite(*batch.targets.values())
    results = (outcome.loss if asks_loss else None, outcome.predicted if role == "input" else None)
    tensors = [result for result in results if isinstance(result, torch.Tensor)]
    return _all_finite(*tensors) if tensors else None


def _all_finite(*tensors: torch.Tensor) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def _batch_with(subject: Subject, role: str, index: int) -> Batch | None:
    """Give a batch that holds the ill sample; None where it does not come again, as with random augmentation."""
    feed = subject.feed
    if feed.dataset is not None and feed.total and not feed.gives_whole_batches:
        chosen = [index, *(i for i in range(min(feed.total, 8)) if i != index)]
        candidates = iter([feed.collate([feed.dataset[i] for i in chosen])])
    else:
        candidates = islice(feed, 64)
    for raw in candidates:
        batch = subject.wrap(raw)
        tensors = batch.inputs if role == "input" else batch.targets
        if not _all_finite(*tensors.values()):
            return batch
    return None
