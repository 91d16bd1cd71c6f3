"""Which modules of a model are meant: by name, by pattern, by class or as the modules themselves."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from nbdebug.errors import BadInput

__all__ = ["chosen", "inside_wrappers"]

_WRAPPERS = (nn.parallel.DistributedDataParallel, nn.DataParallel)


def inside_wrappers(model: nn.Module) -> nn.Module:
    """Give the model that the user wrote, inside what compiles or distributes it."""
    inner = getattr(model, "_orig_mod", None)
    if isinstance(inner, nn.Module):
        return inside_wrappers(inner)
    return inside_wrappers(model.module) if isinstance(model, _WRAPPERS) else model


def chosen(model: nn.Module, which: Any) -> dict[str, nn.Module]:
    """Give the modules that are meant, by name, in the order of the model.

    `which` is a name such as `encoder.3`, a pattern (`*` stands for one part of a name, `**` for any number of parts),
    a class of modules, a module of the model, or several of these. The model itself is called `model`.
    """
    inner = inside_wrappers(model)
    known = {"model": inner} | {path: module for path, module in inner.named_modules() if path}
    wanted = list(which) if isinstance(which, (list, tuple, set, frozenset)) else [which]
    if not wanted:
        raise _bad("no module was named", "encoder.3", known)
    names = {name for item in wanted for name in _matches(item, known)}
    found = {name: module for name, module in known.items() if name in names}
    for name, module in found.items():
        if isinstance(module, torch.jit.ScriptModule):
            raise BadInput(
                f"{name} is compiled by torch.jit, and compiled code calls no hooks",
                where="tap",
                expected="a module that Python runs",
                do="tap the model before it is scripted or traced",
            )
    return found


def _matches(item: Any, known: dict[str, nn.Module]) -> Iterable[str]:
    if isinstance(item, nn.Module):
        names = [name for name, module in known.items() if module is item]
        asked = f"a {type(item).__name__} that is no part of it"
    elif isinstance(item, type) and issubclass(item, nn.Module):
        names = [name for name, module in known.items() if isinstance(module, item)]
        asked = f"no {item.__name__}"
    elif isinstance(item, str):
        pattern, below = _pattern(item), [name for name in known if known[name] is not known["model"]]
        names = [item] if item in known else [name for name in below if pattern.fullmatch(name)]
        asked = f"no module called {item!r}"
    else:
        raise _bad(f"a {type(item).__name__} names no module", str(item), known)
    if not names:
        raise _bad(f"the model has {asked}", item if isinstance(item, str) else "", known)
    return names


def _pattern(glob: str) -> re.Pattern[str]:
    """Read `*` as one part of a dotted name and `**` as any number of parts."""
    parts = []
    for part in glob.split("."):
        one = "".join("[^.]*" if c == "*" else "[^.]" if c == "?" else re.escape(c) for c in part)
        parts.append(r"(?:[^.]+\.)*" if part == "**" else one + r"\.")
    text = "".join(parts)
    if glob.endswith("**"):  # the names below, at any depth
        return re.compile(text.removesuffix(r"(?:[^.]+\.)*") + r"[^.]+(?:\.[^.]+)*")
    return re.compile(text.removesuffix(r"\."))


def _bad(seen: str, asked: str, known: dict[str, nn.Module]) -> BadInput:
    names = [name for name in known if name != "model"]
    near = difflib.get_close_matches(asked, names, n=3, cutoff=0.4)
    near += [name for name in names if asked and name.endswith(f".{asked}") and name not in near]
    some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return BadInput(
        seen,
        where="tap",
        expected="a module's name as in model.named_modules(), a pattern such as encoder.* or **.norm, or a class",
        do=f"perhaps you meant {' or '.join(near[:4])}" if near else f"its modules are {some or 'none but itself'}",
    )
