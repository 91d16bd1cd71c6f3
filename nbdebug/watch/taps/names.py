"""Which modules of a model are meant: by name, by pattern, by class or as the modules themselves."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import has_compiled_call, has_compiled_forward, is_compiled
from nbdebug.errors import BadInput
from nbdebug.setup.batch_layout import unwrap
from nbdebug.setup.module_names import root_name

__all__ = ["chosen"]


def chosen(model: nn.Module, which: Any = None) -> dict[str, nn.Module]:
    """Return the modules that are meant, by name, in the order of the model.

    `which` is a name such as `encoder.3`, a pattern (`*` stands for one part of a name, `**` for any number of parts),
    a class of modules, a module of the model, or several of these; without it the model itself is meant. That is
    called `model`, or by its class where one of its own modules is called so.
    """
    inner = unwrap(model)
    whole = root_name(inner)
    # A module with two names is known by both, and found by its first one unless it is asked for by the second.
    known = {path or whole: module for path, module in inner.named_modules(remove_duplicate=False)}
    around = next(path for path, module in model.named_modules() if module is inner)
    wanted = list(which) if isinstance(which, (list, tuple, set, frozenset)) else [inner if which is None else which]
    if not wanted:
        raise _bad("no module was named", "encoder.3", known)
    found: dict[nn.Module, str] = {}
    for item in wanted:
        for name in _matches(inner if item is model else _without(around, item, known, whole), known, inner):
            found.setdefault(known[name], name)
    for module, name in found.items():
        _refuse_unseen(model, name, module, f"{around}.{name}".strip(".") if module is not inner else around)
    order = {module: place for place, module in enumerate(inner.modules())}
    return {found[module]: module for module in sorted(found, key=order.__getitem__)}


def _without(around: str, item: Any, known: dict[str, nn.Module], whole: str) -> Any:
    """Read a name as in `named_modules()` of what distributes the model, and the empty one, as one of the model."""
    if not isinstance(item, str) or item in known:
        return item
    if item in ("", around):
        return whole
    inside = item.removeprefix(f"{around}.")
    return inside if around and inside in known else item


def _refuse_unseen(model: nn.Module, name: str, module: nn.Module, path: str) -> None:
    """Refuse a module that compiled code runs: it calls no hooks, and says nothing about it."""
    if isinstance(module, torch.jit.ScriptModule):
        raise BadInput(
            f"{name} is compiled by torch.jit, and compiled code does not call hooks",
            where="tap",
            expected="a module that runs in eager mode",
            do="tap the model before it is scripted or traced",
        )
    parts = path.split(".") if path else []
    for depth in range(len(parts)):
        around = model.get_submodule(".".join(parts[:depth]))
        if is_compiled(around) or has_compiled_forward(around):
            raise _compiled(name, f"{'.'.join(parts[:depth]) or 'the model'} ({type(around).__name__})")
    if has_compiled_call(module):  # a compiled forward leaves the hooks around it to Python, a compiled call does not
        raise _compiled(name, "it")


def _compiled(name: str, what: str) -> BadInput:
    return BadInput(
        f"{name} cannot be seen: {what} is compiled, and compiled code skips the hooks of its submodules",
        where="tap",
        expected="a module that runs in eager mode",
        do="tap and call the model without torch.compile (model._orig_mod, if there is one)",
    )


def _matches(item: Any, known: dict[str, nn.Module], root: nn.Module) -> Iterable[str]:
    if isinstance(item, nn.Module):
        names = [name for name, module in known.items() if module is item]
        asked = f"a {type(item).__name__} that is not part of it"
    elif isinstance(item, type) and issubclass(item, nn.Module):
        names = [name for name, module in known.items() if isinstance(module, item)]
        asked = f"no {item.__name__}"
    elif isinstance(item, str):
        pattern, below = _pattern(item), [name for name in known if known[name] is not root]
        names = [item] if item in known else [name for name in below if pattern.fullmatch(name)]
        asked = f"no module called {item!r}"
    else:
        raise _bad(f"a {type(item).__name__} is not a module name", str(item), known)
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
    names = list(known)[1:]  # the first one is the model itself
    near = difflib.get_close_matches(asked, names, n=3, cutoff=0.4)
    near += [name for name in names if asked and name.endswith(f".{asked}") and name not in near]
    some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return BadInput(
        seen,
        where="tap",
        expected="a module's name as in model.named_modules(), a pattern such as encoder.* or **.norm, or a class",
        do=f"perhaps you meant {' or '.join(near[:4])}" if near else f"its modules are {some or 'none but itself'}",
    )
