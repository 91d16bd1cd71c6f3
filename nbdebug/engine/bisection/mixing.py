"""A set-up mixed of two: each ingredient from the side that is asked for, all of it copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from nbdebug.core.control import Control
from nbdebug.engine.bisection.data import mixed_loader
from nbdebug.engine.bisection.given import Given, Name
from nbdebug.engine.bisection.network import put_model
from nbdebug.engine.bisection.optimizing import put_optimizer, put_scheduler, rate_factors
from nbdebug.engine.bisection.program import put_functions
from nbdebug.sandbox import Sandbox, make_sandbox
from nbdebug.setup import Setup

__all__ = ["EVERYTHING", "Taken", "mixed", "side_of"]

Taken = frozenset[str]
EVERYTHING: Taken = frozenset("*")  # good as it is


def side_of(taken: Taken, ingredient: str) -> Name:
    """Return whose ingredient is used: good's if it is taken, else bad's."""
    return "good" if ingredient in taken or taken == EVERYTHING else "bad"


def mixed(good: Given, bad: Given, taken: Iterable[str], control: Control) -> Setup:
    """Return `bad` with these ingredients of `good`: a set-up of its own, of nothing but copies."""
    names = frozenset(taken)
    if names in (EVERYTHING, frozenset()):
        return (good if names else bad).setup.derived()
    side: Callable[[str], Name] = partial(side_of, names)
    copies = {"good": _copied(good, control), "bad": _copied(bad, control)}
    models = {name: sandbox.model for name, sandbox in copies.items()}
    optimizers = {name: None if s.owns_optimizer else s.optimizer for name, s in copies.items()}
    parameters = {name: {id(p): n for n, p in model.named_parameters()} for name, model in models.items()}
    factors = {name: rate_factors(optimizer) for name, optimizer in optimizers.items()}
    model = put_model(models, side, names)
    optimizer = put_optimizer(optimizers, models, parameters, model, side)
    schedulers = {name: sandbox.scheduler for name, sandbox in copies.items()}
    scheduler = put_scheduler(schedulers, optimizers, factors, optimizer, side)
    functions = put_functions(copies, model, optimizer, scheduler, side)
    loader = mixed_loader(good.setup.feed.loader, bad.setup.feed.loader, side, names)
    return Setup(model, loader, optimizer=optimizer, scheduler=scheduler, **functions)


def _copied(side: Given, control: Control) -> Sandbox:
    """Copy all that belongs together, with the learning rates as they are."""
    plain = side.setup.derived()
    plain.highest_rates = ()
    return make_sandbox(plain, control)
