"""Where in a tensor the samples (or the time steps) are, found by what changes and not by position.

A layout is one way to read a dimension: as samples, as samples × something, or as something × samples, the last two
for dimensions that were flattened together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

__all__ = ["change_of", "layouts", "relative_change", "spill", "steady_prime"]

Pair = tuple[torch.Tensor, torch.Tensor]  # before and after a change


def layouts(shape: Sequence[int], count: int) -> Iterator[tuple[int, bool]]:
    """Return the dimensions that can hold so many things, and whether the things vary slowest within them."""
    for dim, length in enumerate(shape):
        if length and length % count == 0:
            yield dim, True
            if length > count:
                yield dim, False


def relative_change(before: torch.Tensor, after: torch.Tensor) -> float:
    """Return the largest change of any element relative to the size of the values."""
    return float(change_of(before, after).max()) if before.numel() else 0.0


def spill(pairs: Sequence[Pair], touched: Sequence[torch.Tensor], count: int) -> float | None:
    """Return the largest relative change outside of what was touched, in the layout that explains the changes best.

    `touched` holds for each pair a mask over the samples. None means that the tensor has no place for them.
    """
    shape = pairs[0][0].shape
    if any(a.shape != shape or b.shape != shape for a, b in pairs):
        return None
    changes = [change_of(a, b) for a, b in pairs]
    found = [
        max(_outside(change, mask, dim, slow, count) for change, mask in zip(changes, touched, strict=True))
        for dim, slow in layouts(shape, count)
    ]
    square = [dim for dim, length in enumerate(shape) if length == count]
    if len(square) > 1:  # a table of all pairs of samples: a sample's row and its column may change
        found.append(max(_outside_cross(c, mask, square) for c, mask in zip(changes, touched, strict=True)))
    return min(found) if found else None


def steady_prime(size: int, lengths: set[int]) -> int:
    """Choose a number of samples that no other dimension can be mistaken for."""
    fitting = [p for p in (7, 11, 13, 5, 17, 3) if p <= size]
    for prime in fitting:
        if not any(length % prime == 0 for length in lengths if length):
            return prime
    return fitting[0] if fitting else size


def change_of(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Return the absolute change relative to the size of the values; what is infinite in both has not changed."""
    a, b = _real(before), _real(after)
    same = (a == b) | (a.isnan() & b.isnan())
    finite = torch.isfinite(a) & torch.isfinite(b)
    kept = a[finite]
    spread = float(kept.std(correction=0)) if kept.numel() > 1 else 0.0
    scale = max(spread, float(kept.abs().mean()) if kept.numel() else 0.0, 1e-12)
    change = torch.where(finite, (a - b).abs() / scale, torch.ones_like(a))
    return change.masked_fill(same, 0.0)


def _real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return (torch.view_as_real(tensor.resolve_conj()).sum(-1) if tensor.is_complex() else tensor).double()


def _outside(change: torch.Tensor, mask: torch.Tensor, dim: int, slow: bool, count: int) -> float:
    moved = change.movedim(dim, 0)
    folded = moved.reshape(count, -1) if slow else moved.reshape(-1, count, moved[0].numel()).transpose(0, 1)
    rest = folded[~mask.to(change.device)]
    return float(rest.max()) if rest.numel() else 0.0


def _outside_cross(change: torch.Tensor, mask: torch.Tensor, dims: list[int]) -> float:
    """Look only at what belongs to no touched sample in any of the dimensions."""
    for dim in dims:
        change = change.index_select(dim, (~mask).nonzero().flatten().to(change.device))
    return float(change.max()) if change.numel() else 0.0
