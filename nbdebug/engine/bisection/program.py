"""The ingredients of the program: loss function, compute_loss and train_step, which may name models and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from nbdebug.engine.bisection.alike import Alike
from nbdebug.engine.bisection.given import Given
from nbdebug.engine.bisection.ingredient import Ingredient, between, described
from nbdebug.setup.rebinding import Rebinder

__all__ = ["LOSS", "PROGRAM", "STEP", "differing", "put_functions"]

LOSS, COMPUTE_LOSS, STEP = "loss function", "compute_loss", "train_step"
PROGRAM = (LOSS, COMPUTE_LOSS, STEP)
_ATTRIBUTES = {LOSS: "loss_fn", COMPUTE_LOSS: "compute_loss", STEP: "train_step"}


def differing(good: Given, bad: Given) -> Iterator[Ingredient]:
    """Yield what differs between the functions of the training."""
    pairs = [(getattr(good.setup, name), getattr(bad.setup, name)) for name in ("model", "optimizer", "scheduler")]
    pairs += [(good.setup.feed.loader, bad.setup.feed.loader)]
    losses = (good.setup.loss_fn, bad.setup.loss_fn)
    for name in PROGRAM:
        ours, theirs = (getattr(side.setup, _ATTRIBUTES[name]) for side in (good, bad))
        alike = Alike(pairs if name == LOSS else [*pairs, losses])
        if not alike(ours, theirs):
            yield between(name, ours, theirs, texts=(_text(name, ours), _text(name, theirs)))


def put_functions(
    sandboxes: dict[str, Any], model: nn.Module, optimizer: Any, scheduler: Any, side: Callable[[str], str]
) -> dict[str, Any]:
    """Return the functions of the sides asked for; what they name is the mixed model and its optimizer."""
    memo: dict[int, Any] = {}
    named = dict(model.named_modules(remove_duplicate=False)), dict(model.named_parameters(remove_duplicate=False))
    for sandbox in sandboxes.values():
        _stands_for(memo, sandbox.optimizer, optimizer)
        _stands_for(memo, sandbox.scheduler, scheduler)
        parts = (sandbox.model.named_modules(), sandbox.model.named_parameters())
        for mixed, own in zip(named, parts, strict=True):
            for name, part in own:
                _stands_for(memo, part, mixed.get(name))
    chosen = {name: getattr(sandboxes[side(name)], _ATTRIBUTES[name]) for name in PROGRAM}
    if not memo:
        return {_ATTRIBUTES[name]: part for name, part in chosen.items()}
    rebinder = Rebinder(memo, [])
    return {_ATTRIBUTES[n]: rebinder.rebound(part)[0] if part is not None else None for n, part in chosen.items()}


def _stands_for(memo: dict[int, Any], part: Any, mixed: Any) -> None:
    if part is not None and mixed is not None and part is not mixed:
        memo[id(part)] = mixed


def _text(name: str, function: Any) -> str:
    if function is None:
        return "none: inferred" if name == LOSS else "none"
    return described(function)
