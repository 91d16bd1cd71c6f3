"""What a traceback still holds: the modules that were running, what they were given, and the user's own lines."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import MODULE_CALL, REGISTRIES
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.user_code import is_library_file

__all__ = ["Call", "Scene", "scene_of"]

_MODULE_FILE = str(Path(nn.modules.module.__file__))
_FUNCTIONAL_FILE = str(Path(nn.functional.__file__))
_NAMES = re.compile(r"\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?")


@dataclass(frozen=True)
class Call:
    """One call that had not returned when the error was raised: a module, or a loss of torch.nn.functional."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """What it was given."""
        return tensors_in((self.args, list(self.kwargs.values())))


@dataclass(frozen=True)
class Scene:
    """Where the error was raised. `calls` are the modules from the outermost to the innermost."""

    calls: tuple[Call, ...] = ()
    loss: Call | None = None
    backward_of: torch.Tensor | None = None
    users: tuple[tuple[FrameType, int], ...] = field(default=(), repr=False)  # frame and line, outermost first

    @property
    def innermost(self) -> Call | None:
        """The module that was running."""
        return self.calls[-1] if self.calls else None

    @property
    def path(self) -> str:
        """The dotted path of that module within the outermost one; what is not registered there has only its class."""
        if not self.calls:
            return ""
        root, module = self.calls[0].function, self.calls[-1].function
        if root is module:
            return self.name_of(root) or "model"
        return next((path for path, part in root.named_modules() if part is module), type(module).__name__)

    def name_of(self, value: Any) -> str:
        """Return the variable by which the user's code knows an object."""
        for frame, _ in reversed(self.users):
            for names in (frame.f_locals, frame.f_globals):
                for name, known in list(names.items()):
                    if known is value and name != "self" and not name.startswith("_"):
                        return name
        return ""

    def models(self) -> list[nn.Module]:
        """Return the models that the user's frames know, none of them a part of another."""
        known: dict[int, nn.Module] = {}
        for frame, _ in self.users:
            for value in (*frame.f_locals.values(), *frame.f_globals.values()):
                if isinstance(value, nn.Module):
                    known[id(value)] = value
        parts = {id(part) for module in known.values() for part in module.modules() if part is not module}
        return [module for key, module in known.items() if key not in parts]

    def on_the_line(self) -> list[tuple[str, torch.Tensor]]:
        """Return the tensors that the innermost of the user's lines names."""
        if not self.users:
            return []
        frame, line = self.users[-1]
        found: dict[str, torch.Tensor] = {}
        for name in _NAMES.findall(source_line(frame, line)):
            value = _looked_up(name, frame)
            if isinstance(value, torch.Tensor):
                found.setdefault(name, value)
        return list(found.items())


def scene_of(error: BaseException) -> Scene:
    """Read the traceback of an error; where it shows nothing, that of the error behind it."""
    scene = Scene(*_read(error))
    behind = error.__cause__ or error.__context__
    if not scene.calls and scene.loss is None and scene.backward_of is None and behind is not None:
        return scene_of(behind)
    return scene


def _read(error: BaseException) -> tuple[tuple[Call, ...], Call | None, Any, tuple[tuple[FrameType, int], ...]]:
    calls: list[Call] = []
    loss, backward_of, users = None, None, []
    for frame, line in traceback.walk_tb(error.__traceback__):
        file, name, known = frame.f_code.co_filename, frame.f_code.co_name, frame.f_locals
        if file == _MODULE_FILE and name == MODULE_CALL:
            calls.append(Call(known["self"], known["args"], known["kwargs"]))
        elif file == _FUNCTIONAL_FILE and isinstance(known.get("target"), torch.Tensor):
            loss = loss or _loss_call(name, known)
        elif name == "backward" and isinstance(known.get("self"), torch.Tensor):
            backward_of = known["self"]
        elif not is_library_file(file):
            users.append((frame, line))
    return tuple(calls), loss, backward_of, tuple(users)


def _loss_call(name: str, known: dict[str, Any]) -> Call | None:
    function = getattr(nn.functional, name, None)
    if function is None or not isinstance(known.get("input"), torch.Tensor):
        return None
    others = {key: value for key, value in known.items() if key not in ("input", "target", "size_average", "reduce")}
    return Call(function, (known["input"], known["target"]), _accepted(function, others))


def _accepted(function: Any, named: dict[str, Any]) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    wanted = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()
    return {key: value for key, value in named.items() if key in wanted}


def _looked_up(name: str, frame: FrameType) -> Any:
    """Look a name up without running any of the user's code: variables, and what an object simply holds."""
    first, _, rest = name.partition(".")
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    if not rest or isinstance(value, torch.Tensor):
        return value
    held = getattr(value, "__dict__", {})
    for names in (held, *(held.get(registry) or {} for registry in REGISTRIES)):
        if isinstance(names, dict) and rest in names:
            return names[rest]
    return None


def source_line(frame: FrameType, line: int) -> str:
    """Return the whole statement that starts or ends at a line of this frame, or the line alone."""
    import linecache

    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    for statement in _statements(lines):
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
            return "".join(lines[statement.lineno - 1 : statement.end_lineno])
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _statements(lines: list[str]) -> Iterator[ast.stmt]:
    """Return the statements that hold no others."""
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            yield node
