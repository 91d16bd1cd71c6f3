"""Networks that are moved towards another of the same shapes: teachers, target networks, averaged weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

__all__ = ["Averaging", "CopyLog"]

_FITS = 0.05  # of the change, for float32 values and a small learning rate
_MOST_PAIRS = 16


@dataclass(frozen=True)
class Averaging:
    """A network that is set to `keep * itself + (1 - keep) * source` after the step, call by call.

    `equal_when_used` counts the calls in which the two were the same whenever it ran; `stepped` says that an optimizer
    moved it as well.
    """

    network: str
    source: str
    keeps: tuple[float, ...]
    calls: int
    uses: int
    equal_when_used: int
    stepped: int
    stale: int = 0  # calls in which it ran in eval mode with buffers that stay while those of the source move
    is_whole: bool = True  # not a part of another network that follows the same source


@dataclass
class _Pair:
    name: str
    source_name: str
    network: nn.Module
    source: nn.Module
    before: tuple[torch.Tensor, ...] = ()
    source_before: torch.Tensor | None = None
    keeps: list[float] = field(default_factory=list)
    uses: int = 0
    equal: int = 0
    stepped: int = 0
    used_apart: bool = False
    used: bool = False
    ran: bool = False  # in any call
    changed: bool = False  # in any call
    stale: int = 0
    buffers: tuple[torch.Tensor, torch.Tensor] | None = None  # its own and those of the source, before a call


class CopyLog:
    """Watches pairs of networks with parameters of the same names and shapes."""

    def __init__(self, networks: dict[str, nn.Module]) -> None:
        self.pairs = _pairs(networks)
        self.watched = {id(p) for pair in self.pairs for p in pair.network.parameters()}
        self.calls = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """See, inside the block, whether the two of a pair are the same when one of them runs."""
        handles = []
        for pair in self.pairs:

            def runs(module: nn.Module, args: Any, pair: _Pair = pair) -> None:
                pair.used = True
                pair.used_apart = pair.used_apart or not torch.equal(_flat(pair.network), _flat(pair.source))

            handles.append(pair.network.register_forward_pre_hook(runs))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def begin_call(self) -> None:
        """Keep the values of all pairs as they are before a call."""
        self.calls += 1
        for pair in self.pairs:
            pair.used = pair.used_apart = False
            pair.before = tuple(p.detach().clone() for p in pair.network.parameters())
            pair.source_before = _flat(pair.source)
            pair.buffers = _statistics(pair.network), _statistics(pair.source)

    def end_call(self, after_step: dict[int, torch.Tensor]) -> None:
        """See how far the networks were moved otherwise than by an optimizer step, and towards what."""
        for pair in self.pairs:
            stepped = [id(p) in after_step for p in pair.network.parameters()]
            old = torch.cat(
                [
                    after_step.get(id(p), before).flatten().double()
                    for p, before in zip(pair.network.parameters(), pair.before, strict=True)
                ]
            )
            first = torch.cat([before.flatten().double() for before in pair.before])
            pair.stepped += any(stepped) and not torch.equal(first, old)
            pair.stale += pair.used and not pair.network.training and _stays(pair)
            now = _flat(pair.network)
            pair.ran, pair.changed = pair.ran or pair.used, pair.changed or not torch.equal(now, first)
            if torch.equal(now, old):
                continue
            pair.uses += pair.used
            pair.equal += pair.used and not pair.used_apart
            keep = _kept(old, now, [_flat(pair.source), pair.source_before])
            if keep is not None:
                pair.keeps.append(keep)

    @property
    def waits(self) -> bool:
        """Whether a network that runs has not changed yet beside one that has, as a target before its update."""
        changes = {pair.name: pair.changed for pair in self.pairs}
        return any(pair.ran and not pair.changed and changes.get(pair.source_name, False) for pair in self.pairs)

    def judged(self) -> tuple[Averaging, ...]:
        """Return the pairs in which one network follows the other."""
        names = {p.name for p in self.pairs if p.keeps}
        return tuple(
            Averaging(p.name, p.source_name, tuple(p.keeps), self.calls, p.uses, p.equal, p.stepped, p.stale, is_whole)
            for p in self.pairs
            if p.keeps
            for is_whole in (not any(p.name.startswith(f"{name}.") for name in names),)
        )


def _kept(old: torch.Tensor, now: torch.Tensor, sources: list[torch.Tensor | None]) -> float | None:
    """Return the share of its own values that an averaged network keeps; None where it is no average of the two."""
    best: tuple[float, float] | None = None
    for source in sources:
        if source is None or torch.equal(old, source):
            continue
        apart, left = old - source, now - source
        keep = float(left @ apart) / float(apart @ apart)
        error = float((left - keep * apart).norm()) / max(float((now - old).norm()), 1e-12)
        if best is None or error < best[1]:
            best = keep, error
    return best[0] if best is not None and best[1] < _FITS and -0.01 < best[0] < 1.01 else None


def _pairs(networks: dict[str, nn.Module]) -> list[_Pair]:
    """Return all pairs of networks, or of the direct parts of one, whose parameters have the same names and shapes."""
    parts: list[tuple[str, nn.Module]] = []
    for name, module in networks.items():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        parts.append((name, module))
        prefix = "" if name == "model" else f"{name}."
        parts += [(f"{prefix}{key}", child) for key, child in module.named_children()]
    shapes = [[(n, tuple(p.shape)) for n, p in m.named_parameters() if not is_lazy(p)] for _, m in parts]
    found = [
        _Pair(parts[i][0], parts[j][0], parts[i][1], parts[j][1])
        for i in range(len(parts))
        for j in range(len(parts))
        if i != j and shapes[i] and shapes[i] == shapes[j] and not _share(parts[i][1], parts[j][1])
    ]
    return found[: 2 * _MOST_PAIRS]


def _share(one: nn.Module, other: nn.Module) -> bool:
    own = {id(p) for p in one.parameters()}
    return any(id(p) in own for p in other.parameters())


def _flat(module: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten().double() for p in module.parameters()])


def _statistics(module: nn.Module) -> torch.Tensor:
    """Return all buffers of real numbers, such as running means and variances."""
    found = [b.detach().flatten().double() for b in module.buffers() if b.is_floating_point()]
    return torch.cat(found) if found else torch.zeros(0)


def _stays(pair: _Pair) -> bool:
    own, source = pair.buffers or (torch.zeros(0), torch.zeros(0))
    moved = source.numel() == own.numel() > 0 and not torch.equal(source, _statistics(pair.source))
    return moved and torch.equal(own, _statistics(pair.network))
