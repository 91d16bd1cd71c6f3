"""Finds parameters that get gradients while no optimizer moves them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from nbdebug.setup.distributed.pieces import is_piece, is_sum_pending, piece_of
from nbdebug.watch.recorder.weights import ORDINARY

if TYPE_CHECKING:
    from nbdebug.watch.recorder.steps import Steps

__all__ = ["OptimizerCoverage", "UnoptimizedParams"]

FIRST = 16  # parameters of whose values some are remembered from the beginning
HEAD = 64  # values of a parameter that are remembered: a step moves them all


@dataclass(frozen=True)
class OptimizerCoverage:
    """Which of the model's trainable parameters the optimizer holds, compared by identity.

    `strays` are the shapes of what it holds that is not of this model; `elsewhere` are parameters that another
    optimizer, which the user's own functions reach for, holds. `shapes` has the parameters in the order of the model.
    `all_reached` says that of the missing ones only those are named to which gradients came. `doubled` are the
    places of those of several optimizers that hold exactly what another one holds.
    """

    optimizer: str
    held: tuple[str, ...]
    missing: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    strays: tuple[tuple[int, ...], ...]
    elsewhere: tuple[str, ...]
    all_reached: bool = False
    doubled: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()  # held, and no gradient but zeros ever came, in a training that was watched
    waiting_zero: tuple[str, ...] = ()  # of these, whose gradient is there and exactly zero
    waiting_moved: tuple[str, ...] = ()  # of these, that something else moves


class UnoptimizedParams:
    """The parameters that no optimizer holds which is followed: whether gradients came to them, and whether they moved.

    Another optimizer, unknown here, may train them; parameters that changed are not reported.
    """

    def __init__(self, parameters: list[tuple[str, torch.nn.Parameter]], steps: Steps) -> None:
        self._parameters, self._steps = parameters, steps
        self._held = -1  # parameters of the optimizers when the others were looked for
        self._heads: dict[str, torch.Tensor] = {}
        self._reached: set[str] = set()
        self._waiting: dict[str, torch.nn.Parameter] = {}  # held, and no gradient but zeros came so far
        self._as_found: dict[str, torch.Tensor] = {}  # some values of those
        self._first = [_head(p) for _, p in parameters[:FIRST] if _is_trainable(p)]

    def look(self) -> None:
        """Measure the parameters that no optimizer holds; usually there are none."""
        followed = self._steps.followed.values()
        held = sum(len(one.parameters) for one in followed)
        if held != self._held:
            self._held = held
            known = {id(p) for one in followed for p in one.parameters}
            self._waiting = {name: p for name, p in self._parameters if id(p) in known and _is_trainable(p)}
            self._as_found = {name: self._as_found.get(name, _head(p)) for name, p in self._waiting.items()}
            left = {name: p for name, p in self._parameters if id(p) not in known and _is_trainable(p)}
            self._heads = {name: self._heads.get(name, _head(p)) for name, p in left.items()}
        if self._waiting:
            for name in [name for name, p in self._waiting.items() if _is_reached(p) or not p.requires_grad]:
                del self._waiting[name]
                del self._as_found[name]
        if self._heads:
            self._reached |= {name for name, p in self._parameters if name in self._heads and p.grad is not None}

    def has_moved(self) -> bool:
        """Whether any of the first parameters is no longer what it was at the beginning."""
        now = [_head(p) for _, p in self._parameters[:FIRST] if _is_trainable(p)]
        return len(now) == len(self._first) and not all(map(_is_same, self._first, now))

    def coverage(self) -> OptimizerCoverage | None:
        """Return what is held and what is missing; None where no optimizer has stepped that is known."""
        steps = self._steps
        followed = [one for one in steps.followed.values() if one.steps]
        if not followed and not steps.strangers:
            return None
        self.look()
        still = {name for name, p in self._parameters if name in self._heads and _is_same(self._heads[name], _head(p))}
        known = {id(p) for one in steps.followed.values() for p in one.parameters} if followed else set()
        own = {id(p) for _, p in self._parameters}
        every = [p for one in followed for group in one.optimizer.param_groups for p in group["params"]]
        return OptimizerCoverage(
            optimizer=type(followed[0].optimizer).__name__ if followed else steps.strangers.most_common(1)[0][0],
            held=tuple(name for name, p in self._parameters if id(p) in known),
            missing=tuple(name for name, _ in self._parameters if name in still and name in self._reached),
            shapes={name: tuple(p.shape) for name, p in self._parameters},
            strays=tuple(tuple(p.shape) for p in every if id(p) not in own),
            elsewhere=tuple(name for name in self._heads if name not in still),
            all_reached=True,
            waiting=tuple(self._waiting),
            waiting_zero=tuple(n for n, p in self._waiting.items() if p.grad is not None),
            waiting_moved=tuple(n for n, p in self._waiting.items() if not _is_same(self._as_found[n], _head(p))),
        )


def _is_reached(parameter: torch.Tensor) -> bool:
    """Whether it has a gradient other than zeros; on a device, where that would have to be waited for, any."""
    gradient = parameter.grad
    if gradient is None:
        return False
    if is_sum_pending(gradient):
        return True
    gradient = piece_of(gradient)
    return gradient.device.type != "cpu" or gradient.layout is not torch.strided or bool(gradient.any())


def _is_trainable(parameter: torch.Tensor) -> bool:
    is_plain = (
        (type(parameter) in ORDINARY or is_piece(parameter))
        and parameter.layout is torch.strided
        and not parameter.is_meta
    )
    return is_plain and parameter.requires_grad and piece_of(parameter).numel() > 0


def _head(parameter: torch.Tensor) -> torch.Tensor:
    return piece_of(parameter).detach().reshape(-1)[:HEAD].clone()


def _is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and first.device == second.device and bool(torch.equal(first, second))
