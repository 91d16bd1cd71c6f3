"""Replace one sample and see whether the outputs of the others change."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.evidence import BatchMixing, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.taps import first_tensor, tapped

__all__ = ["batch_mixing"]

Run = dict[str, tuple[str, torch.Tensor]]  # path -> kind of module, what it gave


@probe
def batch_mixing(twin: Twin, trial: TrialRun) -> BatchMixing:
    """Replace one sample of a batch and compare what the others get, in eval mode, module by module."""
    require_run(trial)
    batch = twin.batch().head(8)
    if batch.size < 3:
        raise NotApplicable(f"the batch has {batch.size} samples; at least 3 are needed to see one change another")
    replaced = batch.size - 1
    with twin.mode(training=False), torch.no_grad():
        reference, again = _outputs(twin, batch), _outputs(twin, batch)
        changed = _outputs(twin, _with_other_sample(batch, replaced))
    kept = torch.arange(replaced)
    comparable = [path for path, (_, value) in reference.items() if value.dim() and value.shape[0] == batch.size]
    if "" not in comparable:
        raise NotApplicable("the output has no dimension for the samples")
    change = {path: _difference(reference, changed, path, kept) for path in comparable}
    noise = {path: _difference(reference, again, path, kept) for path in comparable}
    mixing = [path for path in comparable if path and change[path] > 10 * noise[path] + 1e-4]
    first = mixing[0] if mixing else ""
    return BatchMixing(change[""], noise[""], first, reference[first][0] if first else "", replaced, len(kept))


def _with_other_sample(batch: Batch, index: int) -> Batch:
    """Put another sample's values, strongly changed, in the place of one; targets stay."""

    def change(_: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != batch.size:
            return tensor
        tensor = tensor.clone()
        if tensor.is_floating_point() or tensor.is_complex():
            tensor[index] = tensor[0] * -1.5 + tensor.abs().mean() + 0.5
        else:
            tensor[index] = tensor[0].roll(1) if tensor.dim() > 1 else tensor[0]
        return tensor

    return batch.map_inputs(change)


def _outputs(twin: Twin, batch: Batch) -> Run:
    """Give what every module gave at its first call, in the order of ending, and the prediction under ""."""
    seen: Run = {}

    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        tensor = first_tensor(output)
        if tensor is not None and path not in seen and tensor.layout is torch.strided and not tensor.is_nested:
            seen[path] = type(module).__name__, tensor.detach().clone()

    with tapped(twin.model, after=after):
        predicted = twin.run(batch).predicted
    if predicted is None:
        raise NotApplicable("the model returns no tensor")
    return {**seen, "": ("", predicted.detach().clone())}


def _difference(reference: Run, other: Run, path: str, kept: torch.Tensor) -> float:
    """Give the largest change of the kept samples relative to the spread of the outputs."""
    before, after = reference[path][1], other.get(path, reference[path])[1]
    if before.shape != after.shape:
        return float("inf")
    a, b = before[kept].double(), after[kept].double()
    finite = torch.isfinite(a) & torch.isfinite(b)
    if not bool(finite.any()):
        return 0.0
    spread = float(a[finite].std(correction=0)) if int(finite.sum()) > 1 else 0.0
    return float((a - b)[finite].abs().max()) / max(spread, float(a[finite].abs().mean()), 1e-12)
