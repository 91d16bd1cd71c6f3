"""The walk through objects: what an object reaches in one step, and what can be reached at all."""

from __future__ import annotations

import weakref
from collections import deque
from functools import lru_cache, partial
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.setup.object_walk import EVERYTHING, Follow, children_of, length_of, registered_in, step_to, walk

KEPT: list[Any] = []


class Plain:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)

    def method(self) -> None: ...


class Slotted:
    __slots__ = ("empty", "inner")

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def closure(inner: Any) -> Any:
    return lambda: inner


def with_default(inner: Any) -> Any:
    def function(positional: Any = inner, *, keyword: Any = inner) -> None: ...

    return function


def marked(inner: Any) -> Any:
    def function() -> None: ...

    function.mark = inner  # type: ignore[attr-defined]
    return function


def names_a_global() -> Any:
    return KEPT


def reached(value: Any, *follow: Follow, most: int | None = None) -> list[Any]:
    return [child for _, child in children_of(value, *follow, most=most)]


INNER = Plain()


@pytest.mark.parametrize(
    "holder",
    [[INNER], (INNER,), {1: INNER}, {INNER}, frozenset([INNER]), deque([INNER]), Plain(inner=INNER)],
    ids=lambda holder: type(holder).__name__,
)
def test_items_and_attributes_are_always_followed(holder: Any) -> None:
    assert reached(holder) == [INNER]


@pytest.mark.parametrize(
    ("holder", "follow", "times"),
    [
        (INNER.method, "owner", 1),
        (closure(INNER), "cells", 1),
        (with_default(INNER), "defaults", 2),
        (marked(INNER), "references", 1),
        (weakref.ref(INNER), "references", 1),
        (Slotted(INNER), "references", 1),
    ],
    ids=["method", "closure", "defaults", "set on a function", "weak reference", "slots"],
)
def test_the_rest_is_followed_on_demand(holder: Any, follow: Follow, times: int) -> None:
    assert reached(holder, follow).count(INNER) == times
    others: list[Follow] = [other for other in EVERYTHING if other != follow]
    assert INNER not in reached(holder, *others)


def test_parts_of_a_partial() -> None:
    held = partial(print, INNER, end=KEPT)
    assert reached(held, "arguments") == [print, (INNER,), {"end": KEPT}]
    assert reached(held) == []


def test_globals_that_a_function_of_the_users_names() -> None:
    assert reached(names_a_global, "globals") == [KEPT]
    assert reached(nn.functional.relu, "globals") == []


def test_a_bound_builtin_leads_to_its_object() -> None:
    assert reached(KEPT.append, "references") == [KEPT]
    assert reached(KEPT.append, "owner") == []


def test_a_cache_leads_to_the_function_inside() -> None:
    function = closure(INNER)
    assert function in reached(lru_cache(function))


def test_a_cell_that_is_not_filled_is_left_out() -> None:
    def later() -> Any:
        return filled

    assert reached(later, "cells") == []
    filled = 1
    assert reached(later, "cells") == [filled]


@pytest.mark.parametrize(
    "leaf", [torch.ones(2), "text", b"bytes", 3, Plain, torch, None], ids=lambda leaf: str(leaf)[:9]
)
def test_leaves_hold_nothing(leaf: Any) -> None:
    assert children_of(leaf, *EVERYTHING) == []


def test_long_containers_are_cut() -> None:
    assert reached(list(range(10)), most=3) == [0, 1, 2]
    assert reached(dict.fromkeys(range(10)), most=3) == [None] * 3


def test_what_a_module_registers_has_the_names_of_pytorch() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert [name for name, _ in registered_in(module)] == ["0", "1"]
    assert [name for name, _ in registered_in(module[0])] == ["weight", "bias"]


@pytest.mark.parametrize(
    ("holder", "step"),
    [
        ([INNER], "[0]"),
        ({"key": INNER}, "['key']"),
        ({("user", 1): INNER}, "[('user', 1)]"),
        ({INNER: INNER}, "[Plain]"),
        (Plain(inner=INNER), ".inner"),
        (closure(INNER), "<inner>"),
        (INNER.method, ""),
        (partial(INNER.method), ".func"),
    ],
)
def test_a_step_is_written_as_in_python(holder: Any, step: str) -> None:
    key, _ = children_of(holder, "owner", "cells", "arguments")[0]
    assert step_to(holder, key) == step


def inside(path: str, value: Any) -> list[tuple[str, Any]]:
    return [(f"{path}{step_to(value, key)}", child) for key, child in children_of(value)]


def test_a_walk_visits_each_part_once_and_ends_in_circles() -> None:
    circle: list[Any] = [INNER, INNER, 1, None]
    circle.append({"back": circle})
    assert dict(walk([("", circle)], inside, skip=(int,))) == {"": circle, "[4]": circle[4], "[1]": INNER}


def test_a_walk_goes_so_deep_and_sees_so_many() -> None:
    nested = [[[[INNER]]]]
    assert len(list(walk([("", nested)], inside, skip=()))) == 5
    assert len(list(walk([("", nested)], inside, skip=(), depth=2))) == 3
    assert len(list(walk([("", nested)], inside, skip=(), most=2))) == 2


def test_what_was_seen_before_is_not_visited() -> None:
    seen = {id(INNER)}
    assert [part for _, part in walk([("", [INNER])], inside, skip=(), seen=seen)] == [[INNER]]


class Unsized(tuple):  # as the irreps of e3nn are
    def __len__(self) -> int:
        raise NotImplementedError


def test_a_container_that_refuses_its_length_is_walked() -> None:
    assert reached(Unsized((INNER,))) == [INNER]
    assert length_of(Unsized((INNER,))) == 0 and length_of([INNER]) == 1
