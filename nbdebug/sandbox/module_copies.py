"""Copy many modules in less time than `copy.deepcopy` takes, with what it would make.

A module has some thirty attributes, nearly all of them flags and empty dicts of hooks, on which deepcopy spends more
time than on the weights. Modules with a way of copying of their own are left to it.
"""

from __future__ import annotations

import copy
import copyreg
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

__all__ = ["ATOMS", "copy_modules"]

ATOMS = (bool, int, float, str, type(None))
_PICKLING = ("__reduce_ex__", "__reduce__", "__setstate__", "__getattribute__")


def copy_modules(modules: Iterable[nn.Module], memo: dict[int, Any]) -> None:
    """Put a copy of each module into the memo of a deepcopy, where it has none yet."""
    made = [(module, _blank(module)) for module in modules if id(module) not in memo and _is_plain(module)]
    memo.update({id(module): blank for module, blank in made})  # all of them, before one is filled with others
    for module, blank in made:
        blank.__setstate__({name: _copied(value, memo) for name, value in vars(module).items()})


def _blank(module: nn.Module) -> Any:
    """Make an empty one as pickle and deepcopy do, or past a constructor that wants what it was called with."""
    try:
        return copyreg.__newobj__(type(module))  # type: ignore[attr-defined]
    except TypeError:
        return object.__new__(type(module))


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    kind = type(value)
    if kind in ATOMS:
        return value
    if id(value) in memo or kind not in (dict, OrderedDict):
        return copy.deepcopy(value, memo)
    made = memo[id(value)] = kind()
    for key, item in value.items():
        made[key if type(key) is str else copy.deepcopy(key, memo)] = _copied(item, memo)
    return made


def _is_plain(module: nn.Module) -> bool:
    """Whether nothing but torch's own base class says how this is copied."""
    kind = type(module)
    if isinstance(module, torch.jit.ScriptModule) or hasattr(kind, "__deepcopy__") or "__deepcopy__" in vars(module):
        return False
    is_default = all(getattr(kind, name) is getattr(nn.Module, name) for name in _PICKLING)
    has_slots = any("__slots__" in vars(base) for base in kind.__mro__)
    own_state = getattr(kind, "__getstate__", None) is not getattr(nn.Module, "__getstate__", None)
    return is_default and not has_slots and not own_state and kind not in copyreg.dispatch_table
