"""Which entry of the target each output is compared with: a causal language model's loss may shift them itself."""

from __future__ import annotations

import torch

from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.sample_dataset import seed_torch
from nbdebug.setup.user_code import user_code

__all__ = ["paired_with_targets"]

PLACES = (0.5, 0.75)  # of the length, where one target is changed; both have to tell the same shift
AGREES = 0.95  # share of the targets that are the input, as in next_tokens


@torch.no_grad()
def paired_with_targets(
    sandbox: Sandbox, batch: Batch, predicted: torch.Tensor, target: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs, classes last, and the class ids that the loss compares them with, entry by entry.

    Both are cut to the overlap where the loss compares an output with a later target and has a reason to: the target
    is the input itself. Targets that the loader has shifted already, or tags, are taken as they are.
    """
    scores = predicted.movedim(dim, -1)
    is_pair = target.dim() > 1 and scores.shape[:-1] == target.shape
    shift = _shift(sandbox, batch, target, dim) if is_pair and _is_input(batch, target) else None
    for axis, step in enumerate(shift or ()):
        kept = target.shape[axis] - abs(step)
        scores = scores.narrow(axis, max(-step, 0), kept)
        target = target.narrow(axis, max(step, 0), kept)
    return scores, target


def _is_input(batch: Batch, target: torch.Tensor) -> bool:
    """Whether the targets are the tokens of an input at the same places, but for those that are ignored."""
    counted = target >= 0
    same = [t for t in batch.inputs.values() if t.shape == target.shape and not t.is_floating_point()]
    return bool(counted.any()) and any(float((t == target)[counted].double().mean()) > AGREES for t in same)


def _shift(sandbox: Sandbox, batch: Batch, target: torch.Tensor, dim: int) -> tuple[int, ...] | None:
    """Change single targets and see at which outputs the gradient of the loss changes; None where it cannot be told."""
    with user_code():  # a loss that refuses another class, or takes no gradient
        before = _gradient(sandbox, batch, dim)
        if before is not None and before.shape[:-1] == target.shape:
            return _agreed([_moved(sandbox, batch, target, dim, before, share) for share in PLACES])
    return None


def _agreed(found: list[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    return found[0] if all(one == found[0] for one in found) else None


def _moved(
    sandbox: Sandbox, batch: Batch, target: torch.Tensor, dim: int, before: torch.Tensor, share: float
) -> tuple[int, ...] | None:
    """Return how far behind the output whose gradient changes most the changed target is, for each dimension."""
    counted = target >= 0  # negative ids are ignored by custom
    places = counted[0].nonzero()
    if len(places) == 0:
        return None
    place = (0, *places[int(share * (len(places) - 1))].tolist())
    classes = target[counted].unique()
    others = classes[classes != target[place]]
    if len(others) == 0:
        return None

    def change(_: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.shape != target.shape or not torch.equal(tensor, target):
            return tensor
        tensor = tensor.clone()
        tensor[place] = others[0]
        return tensor

    after = _gradient(sandbox, batch.map_targets(change), dim)
    if after is None or after.shape != before.shape:
        return None
    changes = (after - before).norm(dim=-1)
    if not bool(torch.isfinite(changes).all()) or float(changes.max()) == 0:
        return None
    at = torch.unravel_index(changes.argmax(), changes.shape)
    return tuple(there - int(here) for there, here in zip(place, at, strict=True))


def _gradient(sandbox: Sandbox, batch: Batch, dim: int) -> torch.Tensor | None:
    """Return the gradient of the loss at the prediction, classes last."""
    seed_torch(0)
    with torch.enable_grad():
        outcome = sandbox.run(batch)
        if outcome.predicted is None or not outcome.predicted.requires_grad or not outcome.loss.requires_grad:
            return None
        (gradient,) = torch.autograd.grad(outcome.loss.sum(), [outcome.predicted], allow_unused=True)
    return gradient.movedim(dim, -1).double() if gradient is not None else None
