"""The state of an optimizer's copy, copied when it is first looked at: most experiments never take a step.

Adam keeps two tensors of the size of each parameter, so that a copy of all of them at once would hold three times what
the model does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch

__all__ = ["LateState", "is_plain_state"]

_PLAIN = (torch.Tensor, int, float, bool, str, type(None))


def is_plain_state(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer keeps nothing but a dict of tensors and numbers for each of its parameters."""
    state, held = optimizer.state, {id(p) for group in optimizer.param_groups for p in group["params"]}
    return type(state) is defaultdict and all(
        id(key) in held and type(kept) is dict and all(type(value) in _PLAIN for value in kept.values())
        for key, kept in state.items()
    )


class LateState(defaultdict[Any, Any]):
    """A `defaultdict(dict)` that is filled with clones of the live state by whatever looks at it first."""

    def __init__(self, live: Mapping[Any, dict[str, Any]]) -> None:
        super().__init__(dict)
        self._live = live
        self._copies: Mapping[int, Any] | None = None

    def link(self, copies: Mapping[int, Any]) -> None:
        """Tell which copy each parameter has, by the id of the live one; until then this is empty.

        Optimizers look into their state while they are copied, to bring what an older release saved up to date.
        """
        self._copies = copies

    def fill(self) -> None:
        """Clone the state, once."""
        live, copies = self._live, self._copies or {}
        self._live, self._copies = {}, None
        for parameter, kept in live.items():
            own = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in kept.items()}
            super().__setitem__(copies[id(parameter)], own)

    def __reduce__(self) -> Any:
        return defaultdict, (dict,), None, None, iter(self.items())


def _filled_first(name: str) -> Any:
    plain = getattr(defaultdict, name)

    def method(self: LateState, *args: Any, **kwargs: Any) -> Any:
        if self._copies is not None:
            self.fill()
        return plain(self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in (
    "__getitem__", "__setitem__", "__delitem__", "__contains__", "__iter__", "__len__", "__repr__", "__eq__", "__ne__",
    "__or__", "__ror__", "__ior__", "__reversed__", "__missing__",
    "get", "items", "keys", "values", "pop", "popitem", "clear", "copy", "setdefault", "update",
):  # fmt: skip
    setattr(LateState, _name, _filled_first(_name))
