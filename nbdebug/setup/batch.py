"""One batch with its reading: inputs and targets by name, and the changes that experiments make to copies of it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from nbdebug.setup.batch_layout import Reading
from nbdebug.setup.nested import Path, at, children, leaves, map_leaves, name_of, rebuild
from nbdebug.setup.user_code import user_code

__all__ = ["Batch"]

Change = Callable[[str, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Batch:
    """A batch as the loader gave it, and how the model eats it. Every change gives a new batch."""

    raw: Any
    reading: Reading
    whole: bool = False  # the model takes it in one piece only: a graph with its edges, a size that is written down

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the model."""
        return tuple(at(self.raw, path) for path in self.reading.args)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the model."""
        return {name: at(self.raw, path) for name, path in self.reading.kwargs.items()}

    @property
    def target(self) -> Any:
        """What the outputs are compared with: the target, or the input itself where there is none."""
        if self.reading.target is not None:
            return at(self.raw, self.reading.target)
        values = (*self.args, *self.kwargs.values())
        return values[0] if values else None

    @property
    def has_target(self) -> bool:
        """Whether the batch holds a target of its own."""
        return self.reading.target is not None

    @property
    def inputs(self) -> dict[str, torch.Tensor]:
        """Every input tensor by its name; the target is never among them."""
        return {name_of(p): leaf for p, leaf in self._tensors() if self._is_input(p)}

    @property
    def targets(self) -> dict[str, torch.Tensor]:
        """Every target tensor by its name; none where the input is the target."""
        return {name_of(p): leaf for p, leaf in self._tensors() if self._is_target(p)}

    @cached_property
    def size(self) -> int:
        """The number of samples: the length that most tensors agree on, the inputs' first."""
        lengths = [leaf.shape[0] for leaf in (*self.inputs.values(), *self.targets.values()) if leaf.dim() > 0]
        if self.has_target and isinstance(self.target, torch.Tensor) and self.target.dim() > 0:
            ragged = [v for v in (*self.args, *self.kwargs.values()) if isinstance(v, (list, tuple))]
            if any(len(v) == self.target.shape[0] for v in ragged):
                return int(self.target.shape[0])
        return Counter(lengths).most_common(1)[0][0] if lengths else 1

    @property
    def joined_by(self) -> tuple[str, ...]:
        """The inputs that say what belongs to which sample where all samples stand in one long row.

        Either where each sample begins in another input, or for each row of it the number of its sample.
        """
        rows = {len(t) for t in self.inputs.values() if t.dim() > 0}
        answers = {len(t) for t in self.targets.values() if t.dim() > 0}
        return tuple(name for name, t in self.inputs.items() if _counts_up(t) and _joins(t, rows, answers))

    def map_inputs(self, change: Change) -> Batch:
        """Return a batch whose input tensors are changed."""
        return self._map(lambda p, t: change(name_of(p), t) if self._is_input(p) else t)

    def map_targets(self, change: Change) -> Batch:
        """Return a batch whose target tensors are changed."""
        return self._map(lambda p, t: change(name_of(p), t) if self._is_target(p) else t)

    def select(self, index: torch.Tensor) -> Batch:
        """Return the batch of these samples, in this order; parts without a sample dimension stay whole."""
        size, chosen = self.size, index.tolist()

        def pick(value: Any, path: Path) -> Any:
            if isinstance(value, torch.Tensor):
                chosen_rows = index.to(value.device)  # index_select, because sparse tensors know no other way
                return value.index_select(0, chosen_rows) if value.dim() > 0 and value.shape[0] == size else value
            if isinstance(value, list) and self._holds_samples(value, path):
                return [value[i] for i in chosen]
            parts = children(value)
            return value if parts is None else rebuild(value, [pick(part, (*path, step)) for step, part in parts])

        return replace(self, raw=pick(self.raw, ()))

    def head(self, count: int) -> Batch:
        """Return the batch of the first so many samples, or all of it where the model takes it in one piece only."""
        return self if self.whole else self.select(torch.arange(min(count, self.size)))

    def to(self, device: torch.device) -> Batch:
        """Return the batch on this device; containers are rebuilt, never changed."""
        return self._map(lambda _, t: t.to(device))

    def clone(self) -> Batch:
        """Return a batch that shares nothing with the loader's, neither tensors nor arrays."""
        return replace(self, raw=map_leaves(lambda _, leaf: _own(leaf), self.raw))

    def _tensors(self) -> list[tuple[Path, torch.Tensor]]:
        return [(path, leaf) for path, leaf in leaves(self.raw) if isinstance(leaf, torch.Tensor)]

    def _is_target(self, path: Path) -> bool:
        target = self.reading.target
        return target is not None and path[: len(target)] == target

    def _is_input(self, path: Path) -> bool:
        return not self._is_target(path) and any(path[: len(p)] == p for p in self.reading.input_paths)

    def _holds_samples(self, value: list[Any], path: Path) -> bool:
        """Whether the entries of this list are the samples, and not parts of the batch that happen to be as many."""
        if len(value) != self.size:
            return False
        places = (*self.reading.input_paths, *([self.reading.target] if self.reading.target is not None else []))
        if any(len(place) > len(path) and place[: len(path)] == path for place in places):
            return False  # inputs and targets are entries of it, as in [x, y]
        return not _is_collated(value, self.size)

    def _map(self, change: Callable[[Path, torch.Tensor], torch.Tensor]) -> Batch:
        return replace(
            self, raw=map_leaves(lambda p, leaf: change(p, leaf) if isinstance(leaf, torch.Tensor) else leaf, self.raw)
        )


def _is_collated(value: list[Any], size: int) -> bool:
    """Whether every entry is a tensor of all samples; images of different sizes have channels in front instead."""
    if not all(isinstance(item, torch.Tensor) and item.dim() > 0 and item.shape[0] == size for item in value):
        return False
    return all(item.dim() < 3 for item in value) or len({tuple(item.shape) for item in value}) == 1


def _own(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)
    with user_code(passing=()):  # what cannot be copied can hardly be changed by a model either
        return copy.deepcopy(leaf)
    return leaf


def _counts_up(tensor: torch.Tensor) -> bool:
    """Whether these are whole numbers from 0 that never fall."""
    if tensor.dim() != 1 or len(tensor) < 2 or tensor.is_floating_point() or tensor.is_complex():
        return False
    return tensor.dtype != torch.bool and int(tensor[0]) == 0 and bool((tensor.diff() >= 0).all())


def _joins(tensor: torch.Tensor, rows: set[int], answers: set[int]) -> bool:
    """Whether numbers that count up are places in a longer input, or for each row one of as many answers."""
    length, last = len(tensor), int(tensor[-1])
    if last > 1 and any(length < other and last <= other for other in rows):
        return length in answers or not answers
    return last + 1 in answers and length not in answers
