"""One optimizer whose steps are followed, and what can be told from the gradients of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from nbdebug.core.torch_compat import write_count
from nbdebug.setup.distributed.pieces import piece_of, pieces_of
from nbdebug.watch.recorder.norms import Gradients, Norms
from nbdebug.watch.recorder.sample import Sample
from nbdebug.watch.recorder.weights import WeightViews

__all__ = ["Followed", "about_equal", "are_same", "heads", "is_clear", "marks"]

HEAD = 64  # values of a parameter that stand for all


@dataclass
class Followed:
    """One optimizer: its parameters among those of the model, and what is known of its current step."""

    name: str
    optimizer: torch.optim.Optimizer
    count: int = 0  # of all tensors that it holds
    parameters: list[torch.Tensor] = field(default_factory=list)
    places: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    views: WeightViews = field(default_factory=lambda: WeightViews([]))
    steps: int = 0
    unpaced: int = 0  # steps since the optimizer that sets the pace made one
    pace_seen: int = -1  # how many that had made then
    measured: int = 0
    backwards: int = 0
    cleared: bool = True
    unclear: bool = False  # whether the gradients were cleared could not be seen without waiting for a device
    looked: bool = False  # whether anybody tried to see it at the last backward pass
    alone: int = 0  # steps that came with backward passes of their own, and not after the step of another optimizer
    probes: list[torch.Tensor] = field(default_factory=list)
    gradients: Gradients = field(default_factory=Gradients)
    raw: Norms | None = None
    marks: tuple[list[int], list[int]] = ([], [])
    sample: Sample | None = None
    has_closure: bool = False
    depth: int = 0  # of steps in steps: one of a class that calls the `step` of its parent is two
    left_at: list[torch.Tensor] = field(default_factory=list)  # some values of the weights after the last step


def heads(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copy some values of the first one, which whoever writes over weights writes over; none that lie on a device."""
    plain = [piece_of(p) for p in parameters[:1] if p.device.type == "cpu" and p.layout is torch.strided]
    return [p.detach().flatten()[:HEAD].clone() for p in plain]


def are_same(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    """Whether these values are the same; nothing is said of a model that was converted in between."""
    return all(a.dtype is not b.dtype or torch.equal(a, b) for a, b in zip(first, second, strict=False))


def marks(gradients: Sequence[torch.Tensor | None], *, are_plain: bool) -> tuple[list[int], list[int]]:
    """Return the versions and the addresses of gradients: another one of either is another gradient."""
    versions = [-1 if g is None else write_count(g) for g in gradients]
    return versions, [g.data_ptr() for g in gradients if g is not None] if are_plain else []


def is_clear(probes: list[torch.Tensor]) -> tuple[bool, bool]:
    """Whether the gradients of the last step are gone, and whether that could not be seen.

    A parameter that is used outside of the forward pass may have got the gradient of this pass already, so that one
    alone proves nothing; and if one is None, all of them were cleared.
    """
    left = [g for g in pieces_of([p.grad for p in probes]) if g is not None]
    if len(left) < len(probes) or not left:
        return True, False
    if any(g.device.type != "cpu" for g in left):
        return False, True
    return 2 * sum(bool(g.any()) for g in left) <= len(left), False


def about_equal(first: Norms, second: Norms) -> bool:
    """Whether two looks at the same gradients gave the same."""
    if not first.is_known:
        return True  # not worth waiting for a device
    return bool(np.allclose(first.numpy(), second.numpy(), rtol=1e-4, equal_nan=True))
