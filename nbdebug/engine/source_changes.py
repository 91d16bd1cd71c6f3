"""Fixes in the user's own words: each fix as a diff of their code, run on a copy where that is safe."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import CodeType, FunctionType
from typing import Any, cast

from torch import nn

from nbdebug.core.finding import Finding
from nbdebug.core.remedy import Remedy
from nbdebug.engine.root_cause.planning import seconds_for
from nbdebug.engine.session import Session
from nbdebug.errors import Cancelled, NbdebugError, NotApplicable, OutOfTime
from nbdebug.fixes.source import Change, change_for, with_diffs
from nbdebug.fixes.source.text import Source, parsed
from nbdebug.sandbox import Sandbox, interrupts_held
from nbdebug.setup import Setup
from nbdebug.setup.references import has_state
from nbdebug.setup.user_code import globals_used

__all__ = ["recompiled", "with_source", "write_diffs"]

MOST_RUNS = 4  # changes of one report that are run
MOST_SECONDS = 5.0  # that the experiments behind a check may have taken, to be made again


def write_diffs(session: Session) -> None:
    """Write into every finding of a session its fixes as diffs; those of alarms are run on copies.

    A change after which the check still raises the finding is taken back.
    """
    runs, may_run = 0, session.journal.stopped == "" and not session.control.quick
    for result in session.journal.results:
        findings = []
        for finding in result.findings:
            written = with_diffs(session.setup, finding)
            if written.is_alarm and runs < MOST_RUNS and may_run:
                written, ran = _tried(session, written)
                runs += ran
            findings.append(written)
        if tuple(f.remedies for f in findings) != tuple(f.remedies for f in result.findings) or any(
            remedy.diff for f in findings for remedy in f.remedies
        ):
            session.journal.write(result.with_findings(tuple(findings)))


def _tried(session: Session, finding: Finding) -> tuple[Finding, int]:
    """Run the first change of a finding, where it is one of a function and the check is cheap enough."""
    for number, remedy in enumerate(finding.remedies):
        change = change_for(session.setup, finding.where, remedy) if remedy.diff and not remedy.diff_ran else None
        if change is None or not change[0] or seconds_for(session, (finding.check,)) > MOST_SECONDS:
            continue
        helped = _helps(session, finding, change)
        if helped is None:
            continue
        new = replace(remedy, diff_ran=True) if helped else replace(remedy, diff="")
        return replace(finding, remedies=_exchanged(finding.remedies, number, new)), 1
    return finding, 0


def _exchanged(remedies: tuple[Remedy, ...], number: int, new: Remedy) -> tuple[Remedy, ...]:
    return (*remedies[:number], new, *remedies[number + 1 :])


def _helps(session: Session, finding: Finding, change: Change) -> bool | None:
    """Whether the check raises nothing at this place any more with the changed source; None where it cannot be run."""
    try:
        with interrupts_held(session.control):
            setup = with_source(session.setup, *change)
            other = Session(
                setup,
                control=session.control.shared(),
                thresholds=session.thresholds,
                known=session.registry,
                seed=session.seed,
            )
            result = other.run_check(finding.check)
    except (OutOfTime, Cancelled, NbdebugError, KeyboardInterrupt):
        if session.control.insisted.is_set():
            raise
        return None
    finally:
        session.control.reset()
    if result.status in ("crashed", "skipped"):
        return None
    return not any(found.is_alarm and found.where == finding.where for found in result.findings)


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
