"""Functions on the copy reach copies: by argument, global, closure, default, method, partial or weak reference."""

from __future__ import annotations

import enum
import weakref
from functools import partial
from typing import Any

import torch
from torch import nn

from nbdebug.setup.rebinding import Rebinder

LIVE = nn.Linear(2, 2)
TWIN = nn.Linear(2, 2)
HISTORY: list[int] = []
COUNT = 0
SENTINEL = object()


class Mode(enum.Enum):
    FAST = 1


def rebinder(notes: list[str] | None = None) -> Rebinder:
    return Rebinder({id(LIVE): TWIN}, notes if notes is not None else [])


def uses_global() -> Any:
    return LIVE


def calls_another() -> Any:
    return uses_global()


def appends() -> list[int]:
    HISTORY.append(1)
    return HISTORY


def counts() -> int:
    global COUNT
    COUNT += 1
    return reads_count()


def reads_count() -> int:
    return COUNT


def recursive(depth: int) -> Any:
    return recursive(depth - 1) if depth else LIVE


def pure(x: int) -> int:
    return x + 1


def test_globals_and_calls() -> None:
    sandbox, names = rebinder().rebound(uses_global)
    assert sandbox() is TWIN and names == ["LIVE"] and uses_global() is LIVE
    assert rebinder().rebound(calls_another)[0]() is TWIN
    assert rebinder().rebound(recursive)[0](3) is TWIN


def test_libraries_are_left_alone() -> None:
    sandbox, names = rebinder().rebound(pure)
    assert sandbox(1) == 2 and names == []
    assert rebinder().rebound(torch.nn.functional.relu)[0] is torch.nn.functional.relu


def test_writes_go_to_copies() -> None:
    assert rebinder().rebound(appends)[0]() == [1] and HISTORY == []
    sandbox = rebinder().rebound(counts)[0]
    assert (sandbox(), sandbox()) == (1, 2) and COUNT == 0


def test_functions_share_their_copies() -> None:
    shared = rebinder()
    first, second = shared.rebound(appends)[0], shared.rebound(lambda: HISTORY)[0]
    assert first() is second() and HISTORY == []


def test_closures_and_nonlocal() -> None:
    count, model = 0, LIVE

    def step() -> tuple[int, Any]:
        nonlocal count
        count += 1
        return count, model

    def read() -> int:
        return count

    shared = rebinder()
    sandbox, reader = shared.rebound(step)[0], shared.rebound(read)[0]
    assert sandbox() == (1, TWIN) and sandbox()[0] == 2 and reader() == 2
    assert count == 0 and step() == (1, LIVE)


def test_defaults_partials_and_methods() -> None:
    def with_default(model: Any = LIVE, *, again: Any = LIVE) -> Any:
        return model, again

    assert rebinder().rebound(with_default)[0]() == (TWIN, TWIN)
    assert rebinder().rebound(partial(lambda model: model, LIVE))[0]() is TWIN
    assert rebinder().rebound(LIVE.forward)[0].__self__ is TWIN
    assert rebinder().exchanged("parent", weakref.ref(LIVE))() is TWIN


def test_identities_that_matter_stay() -> None:
    def compare(value: Any) -> tuple[bool, bool]:
        HISTORY.append(1)
        return value is SENTINEL, Mode.FAST is Mode.FAST

    assert rebinder().rebound(compare)[0](SENTINEL) == (True, True)


def test_what_cannot_be_copied_is_said() -> None:
    class Writer:
        def __init__(self) -> None:
            self.lines: list[int] = []

        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("not me")

    writer, notes = Writer(), []
    rebinder(notes).rebound(lambda: writer.lines)
    assert any("writer" in note and "cannot be copied" in note for note in notes)


def test_a_second_network_and_a_tensor_with_a_graph() -> None:
    critic = nn.Linear(2, 2)
    kept = {"last": critic(torch.ones(1, 2))}
    sandbox = rebinder().rebound(lambda: (critic, kept))[0]
    other, copied = sandbox()
    assert other is not critic and torch.equal(other.weight, critic.weight)
    assert copied["last"] is not kept["last"] and torch.equal(copied["last"], kept["last"])


def test_overrides_only_where_needed() -> None:
    class Plain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    class Reaching(Plain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(LIVE(x))

    notes: list[str] = []
    assert rebinder().overrides(Plain) == {}
    overrides = rebinder(notes).overrides(Reaching)
    assert set(overrides) == {"forward"} and "Reaching.forward refers to LIVE" in notes[0]
    module = Reaching()
    assert torch.equal(overrides["forward"](module, torch.ones(1, 2)), TWIN(torch.ones(1, 2)))
