"""Samples of the weights before and after a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nbdebug.core.torch_compat import write_count
from nbdebug.setup.distributed.pieces import is_piece, piece_of
from nbdebug.watch.recorder.sampling import (
    PHASES,
    SURELY,
    VERIFIED,
    Block,
    Groups,
    Names,
    elements_each,
    is_plain,
    joined,
    put,
    sampled,
)

__all__ = ["ORDINARY", "WeightViews"]

ORDINARY = (torch.Tensor, torch.nn.Parameter)


class WeightViews:
    """Views of a sample of every weight, made once and read many times; they rotate over the elements.

    What is copied after a step is the sample before the next one too, unless something has changed the weights since:
    that is seen by their versions, and, because writing to `.data` bumps none, by copying now and then all the same.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = parameters
        self.wanted = elements_each(len(parameters))
        self._ordinary = [p for p in parameters if type(p) in ORDINARY or is_piece(p)]
        self._pointers: list[int] | None = None
        self._names = Names()
        self._phases: list[list[tuple[tuple[int, ...], int, list[Any]]]] = []  # what, how many of each, where
        self.is_plain = False
        self._taken = self._phase = 0
        self._kept: tuple[int, list[int], list[Block]] = (-1, [], [])  # after which step, versions, and what was copied
        self._changes_silently = False

    def before(self, step: int) -> list[Block]:
        """Return the sample before this step."""
        self._taken += 1
        self._refresh()
        after, versions, kept = self._kept
        is_same = after == step and not self._changes_silently and versions == list(map(write_count, self.parameters))
        if is_same and self._taken > SURELY and self._taken % VERIFIED:
            return kept
        if is_same and not _are_equal(kept, self._copied()):
            self._changes_silently = True
        if self._taken % VERIFIED == 0:
            self._phase = (self._phase + 1) % PHASES
        return self._copied()

    def after(self, step: int) -> list[Block]:
        """Return the sample after the step before this one, of the same elements."""
        self._refresh()  # some steps put other tensors in the place of the old ones
        copied = self._copied()
        if self.is_plain:  # elsewhere a copy costs little, and to compare it would be to wait
            self._kept = (step, list(map(write_count, self.parameters)), copied)
        return copied

    def _refresh(self) -> None:
        """Make the views anew where a tensor was moved or swapped since."""
        pointers = [piece_of(p).data_ptr() for p in self._ordinary]
        if pointers != self._pointers:
            self._pointers = pointers
            self.is_plain = all(p.dtype is torch.float32 and p.device.type == "cpu" for p in self.parameters)
            self._phases = [self._views(number) for number in range(PHASES)]
            self._kept = (-1, [], [])

    def _copied(self) -> list[Block]:
        return [Block(names, size, joined(views)) for names, size, views in self._phases[self._phase]]

    def _views(self, phase: int) -> list[tuple[tuple[int, ...], int, list[Any]]]:
        groups: Groups = {}
        for index, parameter in enumerate(self.parameters):
            if (type(parameter) in ORDINARY or is_piece(parameter)) and is_plain(piece := piece_of(parameter)):
                view, size = sampled(piece, self.wanted, phase)
                put(groups, size, index, view)
        return [(self._names.of(indices), key[0], views) for key, (indices, views) in groups.items()]


def _are_equal(first: list[Block], second: list[Block]) -> bool:
    return all(np.array_equal(one.data, other.data) for one, other in zip(first, second, strict=True))
