"""Run changed source on copies: the user's function is compiled anew, over the names that it had."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from typing import Any, cast

from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.fixes.source.text import Source, parsed
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Setup
from nbdebug.setup.references import has_state
from nbdebug.setup.user_code import globals_used

__all__ = ["recompiled", "with_source"]


def with_source(setup: Setup, part: str, source: Source, changed: str) -> Setup:
    """Return a setup like this one whose copies run the changed source; raise NotApplicable where that is not safe."""
    function = recompiled(source, changed)
    if part == "forward":
        refuse_shared(function)
        return setup.derived(partial(_replace_forward, old=source.function, new=function))
    other = setup.derived()
    setattr(other, part, function)
    return other


def recompiled(source: Source, changed: str) -> FunctionType:
    """Return the function that the changed source defines, with the globals, defaults and variables of the old one."""
    old, tree = source.function, parsed(changed)
    node = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)), None) if tree is not None else None
    if old is None or node is None:
        raise NotApplicable("the changed source cannot be compiled")
    if node.decorator_list:
        raise NotApplicable("a decorated function is not compiled anew, because its decorator would run again")
    free = old.__code__.co_freevars
    ast.increment_lineno(node, source.first - 1)
    node.args.defaults, node.args.kw_defaults = (
        [_none(node) for _ in node.args.defaults],
        [_none(node) if default is not None else None for default in node.args.kw_defaults],
    )  # kept as they are below; evaluated again they could be others
    module = ast.parse(f"def outer({', '.join(free)}): pass")  # gives the function the variables that it had
    cast("ast.FunctionDef", module.body[0]).body = [node]
    ast.fix_missing_locations(module)
    code = _inner(_inner(compile(module, source.file, "exec"), "outer"), node.name)
    closure = dict(zip(free, old.__closure__ or (), strict=True))
    new = FunctionType(
        code, old.__globals__, old.__name__, old.__defaults__, tuple(closure[n] for n in code.co_freevars)
    )
    new.__kwdefaults__, new.__module__, new.__qualname__ = old.__kwdefaults__, old.__module__, old.__qualname__
    return new


def refuse_shared(function: FunctionType) -> None:
    """Refuse to run a method on a copy that would reach something of the user's with a state."""
    named = {
        name: function.__globals__[name] for name in globals_used(function.__code__) if name in function.__globals__
    }
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    named |= {name: cell.cell_contents for name, cell in cells.items() if name != "__class__"}
    reached = sorted(name for name, value in named.items() if has_state(value) and not isinstance(value, type))
    if reached:
        raise NotApplicable(
            f"the changed source is not run: it refers to {', '.join(reached)} outside of its arguments"
        )


def _replace_forward(sandbox: Sandbox, *, old: Callable[..., Any], new: FunctionType) -> None:
    for module in sandbox.model.modules():
        if getattr(type(module).forward, "__func__", type(module).forward) is old and isinstance(module, nn.Module):
            module.__dict__["forward"] = types.MethodType(new, module)


def _inner(code: CodeType, name: str) -> CodeType:
    return next(const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name)


def _none(node: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Constant(None), node)
