"""The ingredients of the optimizer: its class, its numbers, parameter groups and scheduler, and how each crosses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.core.text import figure, plural
from nbdebug.engine.bisection.alike import Alike
from nbdebug.engine.bisection.ingredient import Ingredient, between, described
from nbdebug.errors import NotApplicable
from nbdebug.setup.several import SeveralOptimizers, kind_of_optimizer

__all__ = ["GROUPS", "OPTIMIZER", "SCHEDULER", "differing", "put_optimizer", "put_scheduler", "rate_factors"]

OPTIMIZER, GROUPS, SCHEDULER, RATE, DECAY = (
    "optimizer", "trained parameters", "scheduler", "learning rate", "weight decay"
)  # fmt: skip
_NAMES = {"lr": RATE, "weight_decay": DECAY}
_STARTS = ("initial_lr", "lr")  # a scheduler keeps what the optimizer was made with
_SPEED = ("foreach", "fused", "capturable", "differentiable")  # say how it is computed, and not what

Side = Callable[[str], str]


def differing(good: Any, bad: Any) -> Iterator[Ingredient]:
    """Yield what differs between two optimizers and their schedulers; `good` and `bad` are setups."""
    ours, theirs = good.optimizer, bad.optimizer
    same_kind = _kinds(ours) == _kinds(theirs) or bool(Alike()(type(ours), type(theirs)))
    if not same_kind:
        yield between(OPTIMIZER, ours, theirs, texts=(_text(ours), _text(theirs)))
    if ours is not None and theirs is not None:
        numbers = [_numbers(optimizer) for optimizer in (ours, theirs)]
        for key in numbers[0].keys() & numbers[1].keys():
            if numbers[0][key] != numbers[1][key] and (same_kind or key == "weight_decay"):
                texts = (_figures(numbers[0][key]), _figures(numbers[1][key]))
                yield between(_NAMES.get(key, key), None, None, texts=texts)
    shared = {n for n, _ in good.model.named_parameters()} & {n for n, _ in bad.model.named_parameters()}
    trained = [_trained(setup, shared) for setup in (good, bad)]
    if trained[0] != trained[1]:
        yield between(GROUPS, None, None, texts=(_groups_text(good, trained[0]), _groups_text(bad, trained[1])))
    if not Alike([(ours, theirs)])(_schedule(good.scheduler), _schedule(bad.scheduler)):
        yield between(SCHEDULER, good.scheduler, bad.scheduler, texts=(_plan(good.scheduler), _plan(bad.scheduler)))


def put_optimizer(
    optimizers: dict[str, Any],
    models: dict[str, nn.Module],
    names: dict[str, dict[int, str]],
    model: nn.Module,
    side: Side,
) -> Any:
    """Return the copy of one side's optimizer, over the parameters of the mixed model, with each number as asked for.

    `names` holds the names of each side's parameters by their ids, from before the models were mixed.
    """
    chosen = optimizers[side(OPTIMIZER)]
    grouping = optimizers[side(GROUPS)]
    _put_trained(model, models, names, side(GROUPS))
    if chosen is None:
        return None
    numbers = {name: optimizer.param_groups for name, optimizer in optimizers.items() if optimizer is not None}
    plans = [_names_in(group, names[side(GROUPS)]) for group in (grouping or chosen).param_groups]
    if grouping is None:
        plans = [[name for name, p in model.named_parameters() if p.requires_grad]]
    before = [dict(group) for group in chosen.param_groups]
    groups = _groups(model, plans, is_whole=_covers(plans, names[side(GROUPS)], models[side(GROUPS)]))
    if isinstance(chosen, SeveralOptimizers) and len(groups) != len(before):
        raise NotApplicable("several optimizers keep their own parameter groups")
    while len(chosen.param_groups) < len(groups):
        chosen.param_groups.append(dict(before[0]))
    del chosen.param_groups[len(groups) :]
    for index, (group, parameters) in enumerate(zip(chosen.param_groups, groups, strict=True)):
        if index < len(before):
            group["params"][:] = parameters  # in place, because some optimizers keep this list themselves
        else:
            group["params"] = list(parameters)
        for key in _numbers_of(group):
            source = numbers.get(side(_NAMES.get(key, key)) if _is_apart(key, optimizers) else side(OPTIMIZER))
            _put_number(group, key, source, index)
    kept = {id(p) for group in groups for p in group}
    for part in _each(chosen):
        for parameter in [p for p in part.state if id(p) not in kept]:
            del part.state[parameter]
    return chosen


def _put_number(group: dict[str, Any], key: str, source: list[dict[str, Any]] | None, index: int) -> None:
    if not source:
        return
    other = source[index] if index < len(source) else source[0]
    if key == "lr":
        start = next((other[name] for name in _STARTS if name in other), group["lr"])
        group["lr"] = start
        group.pop("initial_lr", None)
    elif key in other:
        group[key] = other[key]


def put_scheduler(
    schedulers: dict[str, Any], optimizers: dict[str, Any], factors: dict[str, list[float]], optimizer: Any, side: Side
) -> Any:
    """Return the copy of one side's scheduler over the mixed optimizer, at its own place in the schedule.

    `factors` says how far each side's schedule has brought its rates from their start, before anything is mixed.
    """
    scheduler, source = schedulers[side(SCHEDULER)], optimizers[side(SCHEDULER)]
    if scheduler is None or optimizer is None or source is None:
        return None
    starts = [group["lr"] for group in optimizer.param_groups]
    for part in (scheduler, *getattr(scheduler, "_schedulers", ())):
        part.optimizer = optimizer
        if hasattr(part, "base_lrs"):
            part.base_lrs = list(starts)
    for index, group in enumerate(optimizer.param_groups):
        group["initial_lr"] = starts[index]
        group["lr"] = starts[index] * factors[side(SCHEDULER)][min(index, len(factors[side(SCHEDULER)]) - 1)]
        extra = source.param_groups[min(index, len(source.param_groups) - 1)]
        group.update({key: value for key, value in extra.items() if key not in group})
    return scheduler


def rate_factors(optimizer: Any) -> list[float]:
    """Return how far a schedule has brought each rate from its start, before anything is mixed."""
    return [_factor(group) for group in optimizer.param_groups] if optimizer is not None else []


def _factor(group: dict[str, Any]) -> float:
    start = float(group.get("initial_lr", group.get("lr", 1.0)) or 1.0)
    return float(group.get("lr", start)) / start


def _is_apart(key: str, optimizers: dict[str, Any]) -> bool:
    """Whether a number is an ingredient by itself: of two classes, only weight decay means the same."""
    kinds = {tuple(_kinds(optimizer)) for optimizer in optimizers.values()}
    return key == "weight_decay" or len(kinds) == 1


def _each(optimizer: Any) -> list[Any]:
    return list(optimizer.parts.values()) if isinstance(optimizer, SeveralOptimizers) else [optimizer]


def _kinds(optimizer: Any) -> list[type]:
    return [type(part) for part in _each(optimizer)]


def _numbers_of(group: dict[str, Any]) -> list[str]:
    return [key for key in group if key not in ("params", "initial_lr", "param_names", *_SPEED)]


def _numbers(optimizer: Any) -> dict[str, tuple[Any, ...]]:
    """Return every number of an optimizer, one for each group, or one where all groups agree."""
    found: dict[str, tuple[Any, ...]] = {}
    for key in _numbers_of(dict(optimizer.param_groups[0])):
        if key not in optimizer.defaults:
            continue  # a scheduler's
        held = [
            next((group[n] for n in _STARTS if n in group), 0.0) if key == "lr" else group.get(key)
            for group in optimizer.param_groups
        ]
        values = tuple(v.item() if isinstance(v, torch.Tensor) else v for v in held)
        found[key] = values[:1] if len(set(map(str, values))) == 1 else values
    return found


def _figures(values: tuple[Any, ...]) -> str:
    return ", ".join(described(value) for value in values)


def _trained(setup: Any, shared: set[str]) -> tuple[tuple[str, ...], ...]:
    """Return which parameters that both models have each group trains, without those that are frozen."""
    names = {id(p): name for name, p in setup.model.named_parameters() if name in shared and p.requires_grad}
    groups = [{"params": setup.model.parameters()}] if setup.optimizer is None else setup.optimizer.param_groups
    return tuple(tuple(sorted(names[id(p)] for p in group["params"] if id(p) in names)) for group in groups)


def _groups_text(setup: Any, trained: tuple[tuple[str, ...], ...]) -> str:
    total = sum(1 for _ in setup.model.parameters())
    return f"{sum(map(len, trained))} of {plural(total, 'parameter')} in {plural(len(trained), 'group')}"


def _names_in(group: dict[str, Any], names: dict[int, str]) -> list[str]:
    return [names[id(p)] for p in group["params"] if id(p) in names]


def _covers(plans: list[list[str]], names: dict[int, str], model: nn.Module) -> bool:
    """Whether an optimizer has everything of its own model that is not frozen."""
    held = {name for plan in plans for name in plan}
    return held >= set(names.values())


def _groups(model: nn.Module, plans: list[list[str]], *, is_whole: bool) -> list[list[Any]]:
    """Find the parameters of these names; what no plan knows joins the first group where that was for everything."""
    parameters = dict(model.named_parameters())
    groups = [[parameters[name] for name in plan if name in parameters] for plan in plans]
    known = {name for plan in plans for name in plan}
    if is_whole:
        groups[0] += [p for name, p in parameters.items() if name not in known]
    return groups


def _put_trained(model: nn.Module, models: dict[str, nn.Module], names: dict[str, dict[int, str]], side: str) -> None:
    """Freeze what is frozen on this side, by name."""
    frozen = {n: p.requires_grad for n, p in models[side].named_parameters()}
    for name, parameter in model.named_parameters():
        if name in frozen and parameter.is_floating_point():
            parameter.requires_grad_(frozen[name])


def _schedule(scheduler: Any) -> Any:
    if scheduler is None:
        return None
    held = {n: v for n, v in vars(scheduler).items() if n not in ("optimizer", "base_lrs") and not n.startswith("_")}
    return (type(scheduler), held, [_schedule(part) for part in getattr(scheduler, "_schedulers", ())])


def _plan(scheduler: Any) -> str:
    if scheduler is None:
        return "none"
    plain = {n: v for n, v in vars(scheduler).items() if not n.startswith("_") and isinstance(v, (int, float, list))}
    hidden = ("base_lrs", "last_epoch", "verbose")
    return f"{type(scheduler).__name__}({', '.join(f'{n}={figure(v)}' for n, v in plain.items() if n not in hidden)})"


def _text(optimizer: Any) -> str:
    if optimizer is None:
        return "none: Adam, assumed"
    rate = _numbers(optimizer).get("lr")
    return kind_of_optimizer(optimizer) + (f"(lr={_figures(rate)})" if rate else "")
