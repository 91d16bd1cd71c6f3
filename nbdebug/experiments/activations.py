"""From each layer with weights to what its activation makes of it, whether that is a module or a line of forward."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from nbdebug.experiments.autograd_graph import builds_on
from nbdebug.experiments.trace import Call, Trace, owned_matrices, weighted_calls

__all__ = ["Activation", "activations_in", "by_unit"]


@dataclass
class Activation:
    """What a layer gave (`before`), what came of it (`after`), and the name of what did that."""

    layer: Call
    before: torch.Tensor
    after: torch.Tensor
    name: str
    module: nn.Module | None

    @property
    def units(self) -> int:
        """The number of units of the layer."""
        return int(self.before.shape[unit_dim(self.layer)])


def unit_dim(layer: Call) -> int:
    """Return the dimension of a layer's output that counts its units: channels for kernels, the last one otherwise."""
    assert layer.output is not None
    kernels = any(weight.dim() >= 3 for _, weight in owned_matrices(layer.module))
    return 1 if kernels and layer.output.dim() >= 3 else layer.output.dim() - 1


def by_unit(tensor: torch.Tensor, layer: Call) -> torch.Tensor | None:
    """Lay a tensor out as units × values; None where the units of the layer cannot be found in it."""
    assert layer.output is not None
    dim, units = unit_dim(layer), int(layer.output.shape[unit_dim(layer)])
    if tensor.dim() == layer.output.dim() and tensor.shape[dim] == units:
        return tensor.movedim(dim, 0).reshape(units, -1)
    if tensor.dim() == 2 and tensor.shape[1] % units == 0 and dim == 1:  # flattened, channels first
        return tensor.reshape(len(tensor), units, -1).movedim(1, 0).reshape(units, -1)
    return None


def activations_in(trace: Trace, known: Container[str] | None = None) -> Iterator[Activation]:
    """Follow every layer with weights to its activation; the last layer, whose output is the answer, has none.

    `known` names the layers that an earlier pass found, so that the graph need not be asked again.
    """
    began = sorted(trace.calls, key=lambda call: call.began)
    leaves = [call for call in began if call.is_leaf and call.output is not None]
    takers: dict[int, Call] = {}
    for call in reversed(leaves):
        takers.update({id(tensor): call for tensor in call.inputs})
    for layer in weighted_calls(trace):
        if known is not None and layer.path not in known:
            continue
        if layer.is_leaf and layer.output is not None and layer.output.dim() >= 2:
            found = _follow(layer, takers, leaves, sure=known is not None)
            if found is not None and (known is not None or _feeds_another(found, trace)):
                yield found


def _follow(layer: Call, takers: dict[int, Call], leaves: list[Call], *, sure: bool) -> Activation | None:
    """Go from module to module, through norms, pools and what does nothing, to the first that bends the values."""
    before, current, place = layer.output, layer.passed, layer
    assert before is not None and current is not None
    for _ in range(8):
        taker = takers.get(id(current))
        if taker is None:
            return _between(layer, before, place, leaves, sure=sure)
        if owned_matrices(taker.module) or taker.output is None or taker.passed is None:
            return None
        bends = taker.output.shape == current.shape and not any(True for _ in taker.module.parameters())
        if bends and not torch.equal(taker.output, before) and not _is_softmax(taker.output):
            return Activation(layer, before, taker.output, taker.path, taker.module)
        if by_unit(taker.output, layer) is None:
            return None
        before, current, place = taker.output, taker.passed, taker
    return None


def _between(layer: Call, before: torch.Tensor, place: Call, leaves: list[Call], *, sure: bool) -> Activation | None:
    """Take the input of the next module where a function was written between the two."""
    following = next((call for call in leaves if call.began > place.began and call is not place), None)
    if following is None or not following.inputs:
        return None
    after = following.inputs[0]
    if not after.is_floating_point() or by_unit(after, layer) is None or _is_softmax(after):
        return None
    if not sure and not _depends(after, before):
        return None
    return Activation(layer, before, after, f"before {following.path}", None)


def _feeds_another(found: Activation, trace: Trace) -> bool:
    """Whether another layer with weights works on what came out; the answer itself may be as flat as it likes."""
    later = [c.inputs[0] for c in weighted_calls(trace) if c.began > found.layer.began and c.inputs]
    if not found.after.requires_grad:
        return bool(later)
    if any(tensor is found.after for tensor in later):
        return True
    total = [tensor.sum() for tensor in later if tensor.requires_grad]
    return bool(total) and _depends(torch.stack(total), found.after)


def _depends(after: torch.Tensor, before: torch.Tensor) -> bool:
    """Whether one tensor was computed from the other; taken for granted where no graph was kept."""
    if not before.requires_grad:
        return True
    if not after.requires_grad:
        return False
    return builds_on(after, before)


def _is_softmax(tensor: torch.Tensor) -> bool:
    values = tensor.detach()
    return any(
        tensor.shape[dim] > 1 and bool((values.sum(dim) - 1).abs().max() < 1e-4) for dim in {1, tensor.dim() - 1}
    )
