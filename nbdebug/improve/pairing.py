"""Which weight of a model is which of a reference, and which layer is which."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from nbdebug.errors import BadInput
from nbdebug.improve.replay import Call, Replay

__all__ = ["Weights", "paired", "shared_weights"]


@dataclass(frozen=True)
class Weights:
    """How the weights were mapped: by name or by order, which pairs, which were turned, and which found no partner."""

    how: str
    pairs: tuple[tuple[str, str], ...] = ()
    transposed: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say it in a few words."""
        turned = f"; transposed: {', '.join(self.transposed[:5])}" if self.transposed else ""
        alone = f"; unmatched: {', '.join(self.alone[:5])}" if self.alone else ""
        return f"{self.how}, {len(self.pairs)} pairs{turned}{alone}"


def shared_weights(model: nn.Module, reference: nn.Module) -> Weights:
    """Return the model the weights and statistics of the reference, in place; the model is a copy."""
    ours, theirs = _tensors(model), _tensors(reference)
    if set(ours) & set(theirs) and all(_fits(ours[n], theirs[n]) for n in set(ours) & set(theirs)):
        pairs, how = [(name, name) for name in ours if name in theirs], "by name"
    else:
        pairs, how = _by_order(ours, theirs), "by order"
    if not pairs:
        raise BadInput(
            "no weight of the model matches one of the reference",
            where="compare",
            expected="two models whose weights have the same names, or the same shapes in the same order",
            do="compare(…, share_weights=False) compares them with their own weights",
        )
    turned = []
    with torch.no_grad():
        for name, other in pairs:
            source = theirs[other]
            if ours[name].shape != source.shape:
                source = source.T
                turned.append(name)
            ours[name].copy_(source)
    mapped = {name for name, _ in pairs} | {f"reference's {other}" for _, other in pairs}
    alone = [name for name in (*ours, *(f"reference's {name}" for name in theirs)) if name not in mapped]
    return Weights(how, tuple(pairs), tuple(turned), tuple(alone))


def _tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    counted = {name: b for name, b in model.named_buffers() if b.is_floating_point()}
    return {**dict(model.named_parameters()), **counted}


def _by_order(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> list[tuple[str, str]]:
    """Pair in the order of definition, and skip on either side what does not fit."""
    pairs: list[tuple[str, str]] = []
    left = list(theirs)
    for name, tensor in ours.items():
        match = next((other for other in left if _fits(tensor, theirs[other])), None)
        if match is not None:
            pairs.append((name, match))
            left = left[left.index(match) + 1 :]
    return pairs


def _fits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape or (a.dim() == 2 and a.shape == b.T.shape)


def paired(ours: Replay, theirs: Replay, weights: Weights) -> list[tuple[Call, Call]]:
    """Pair the calls: by shared weights or names where there are any, else by kind within the order of calls."""
    partner = {name.rpartition(".")[0]: other.rpartition(".")[0] for name, other in weights.pairs}
    pairs: list[tuple[Call, Call]] = []
    place = 0
    for call in ours.calls:
        wanted = partner.get(call.path)
        for index in range(place, len(theirs.calls)):
            other = theirs.calls[index]
            if other.path == wanted if wanted is not None else _alike(call, other, partner):
                pairs.append((call, other))
                place = index + 1
                break
            if wanted is None and other.path in partner.values():
                break  # a layer with weights belongs to its partner alone
    return pairs


def _alike(call: Call, other: Call, partner: dict[str, str]) -> bool:
    """Whether two layers without weights stand for each other: the same name, or the same kind."""
    if other.path in partner.values():
        return False
    return call.path == other.path or type(call.module) is type(other.module)
