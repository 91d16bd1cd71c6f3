"""The examples on the page of each check: a failing example of its tests, and the same code fixed.

Nothing is written for the pages alone. The code is cut out of the test files, with everything of theirs that it uses,
and a line of it that is buggy says in a comment what it is when fixed: `lr = 10.0  # fixed: lr = 0.1`. Comments below
the line give a fix of several lines, and an empty one leaves the line out. `tests/test_check_examples.py` runs both.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Example", "examples"]

ROOT = Path(__file__).resolve().parent.parent
MARK = "# fixed:"
KEPT = ("tests.zoo", "tests.examples")  # data sets of the tests are imported by an example, other helpers are shown
FOR_TOOLS = re.compile(r"\s*# (noqa|type: ignore|fmt: skip)\S*.*$")
ONE_LINE = re.compile(r'(?<=:\n) +""".*"""\n+')  # a docstring tells of the bug, not of the fixed code
ON_RANKS = "on_two_ranks"
MAKES_AN_EXAMPLE = re.compile(rf"failing_(example|recording)|{ON_RANKS}")
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Example:
    """Code with the bug, what has to be put in its place, and what both use.

    `name` is the function that makes the set-up; `kind` says as what: the arguments of `nbdebug.diagnose`, a recorded
    training, or one that is recorded on every process of a distributed training.
    """

    check: str
    name: str
    file: str
    kind: str
    about: str
    helpers: str
    bad: str
    good: str


class Source:
    """One test file: its definitions, and where the other names that it uses come from."""

    def __init__(self, path: Path) -> None:
        self.path, self.lines = path, path.read_text(encoding="utf-8").splitlines()
        self.definitions: dict[str, Definition] = {}
        self.imports: dict[str, tuple[str, str]] = {}  # the local name: the module, and the name in it
        for node in ast.parse("\n".join(self.lines)).body:
            if isinstance(node, ast.ImportFrom):
                self.imports.update({a.asname or a.name: (node.module or "", a.name) for a in node.names})
            elif isinstance(node, ast.Import):
                self.imports.update({a.asname or a.name.partition(".")[0]: (a.name, "") for a in node.names})
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.definitions[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
                self.definitions.update(dict.fromkeys(names, node))

    def text(self, node: Definition) -> list[str]:
        """Return the lines of a definition, without the decorators that make it a failing example."""
        first = min([node.lineno, *(mark.lineno for mark in getattr(_undecorated(node), "decorator_list", []))])
        last = node.end_lineno or node.lineno
        while last < len(self.lines) and self.lines[last].strip().startswith(MARK):
            last += 1
        return self.lines[first - 1 : last]

    def failing_examples(self) -> Iterator[tuple[str, ast.FunctionDef]]:
        """Walk the functions that are registered as failing examples, with the check of each."""
        for node in self.definitions.values():
            for mark in getattr(node, "decorator_list", []):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) in ("failing_example", "failing_recording"):
                    assert isinstance(node, ast.FunctionDef)
                    yield self._text_of(mark.args[0]), node

    def _text_of(self, value: ast.expr) -> str:
        """Read a literal text, or the constant of the file that holds it."""
        if isinstance(value, ast.Name):
            value = getattr(self.definitions[value.id], "value", value)
        return str(ast.literal_eval(value))


@dataclass
class Excerpt:
    """Everything that one function needs: definitions of test files in order, and imports."""

    parts: dict[tuple[Path, int], list[str]]
    imports: set[tuple[str, str, str]]
    names: dict[str, Path]

    def add(self, source: Source, name: str) -> None:
        """Take up a definition, then whatever it uses."""
        node = source.definitions[name]
        if (source.path, node.lineno) in self.parts:
            return
        if self.names.setdefault(name, source.path) != source.path:
            raise ValueError(f"two things are called {name!r}: in {self.names[name].name} and in {source.path.name}")
        self.parts[source.path, node.lineno] = []
        modules: dict[str, str] = {}
        cured = ast.parse("\n".join(_cured(source.text(node))))  # what a cure uses has to be there as well
        for inner in (*ast.walk(_undecorated(node)), *ast.walk(cured)):
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                self._of_module(source, inner.value.id, inner.attr, modules)
            elif isinstance(inner, ast.Name) and inner.id not in modules:
                self._of_file(source, inner.id)
        renamed = re.compile(rf"\b(?:{'|'.join(modules)})\.(?=\w)") if modules else re.compile("(?!)")
        self.parts[source.path, node.lineno] = [renamed.sub("", line) for line in source.text(node)]

    def _of_module(self, source: Source, alias: str, name: str, modules: dict[str, str]) -> None:
        package, module = source.imports.get(alias, ("", ""))
        if package == "tests":  # `from tests import loops`: the example shows what it takes from there
            modules[alias] = module
            self.add(_source(ROOT / "tests" / f"{module}.py"), name)

    def _of_file(self, source: Source, name: str) -> None:
        if name in source.definitions:
            self.add(source, name)
        elif name in source.imports:
            module, original = source.imports[name]
            if module == "tests":
                return
            if module.startswith("tests.") and not module.startswith(KEPT):
                self.add(_source(ROOT / f"{module.replace('.', '/')}.py"), original)
            else:
                self.imports.add((module, original, name))

    def code(self, name: str) -> dict[str, str]:
        """Return the imports and helpers, the definitions that are ill or make the set-up, and those that were
        cured.
        """
        files = list(dict.fromkeys(path for path, _ in self.parts))[::-1]  # helpers of other files come first
        parts = [self.parts[key] for key in sorted(self.parts, key=lambda key: (files.index(key[0]), key[1]))]
        marked = [part for part in parts if any(MARK in line for line in part)]
        shown = [part for part in parts if part in marked or part[0].startswith(f"def {name}(")]
        return {
            "helpers": _joined([self._header(), *(_ill(part) for part in parts if part not in shown)]),
            "bad": _joined([_ill(part) for part in shown]),
            "good": ONE_LINE.sub("", _joined([_cured(part) for part in marked])),
        }

    def _header(self) -> list[str]:
        lines = [f"import {module}" if module == name else f"import {module} as {name}"
                 for module, original, name in sorted(self.imports) if not original]  # fmt: skip
        for module in sorted({module for module, original, _ in self.imports if original}):
            taken = sorted((o, n) for m, o, n in self.imports if m == module and o)
            names = ", ".join(o if o == n else f"{o} as {n}" for o, n in taken)
            lines.append(f"from {module} import {names}")
        return sorted(lines, key=lambda line: line.split()[1].startswith("tests"))


@cache
def _source(path: Path) -> Source:
    return Source(path)


def _undecorated(node: Definition) -> Definition:
    """Return a definition without the decorators that make it a failing example."""
    bare = copy.copy(node)
    if isinstance(bare, ast.FunctionDef):
        bare.decorator_list = [mark for mark in bare.decorator_list if not MAKES_AN_EXAMPLE.search(ast.unparse(mark))]
    return bare


def _kind(node: ast.FunctionDef) -> str:
    """Say what a failing example gives, by its decorators."""
    marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
    return "ranks" if ON_RANKS in marks else "recording" if "failing_recording" in marks else "setup"


def _joined(parts: list[list[str]]) -> str:
    return "\n\n\n".join("\n".join(part) for part in parts) + "\n"


def _ill(lines: list[str]) -> list[str]:
    """Leave out the cures, and what is meant for tools."""
    kept = [line for line in lines if not line.strip().startswith(MARK)]
    return [FOR_TOOLS.sub("", line.partition(MARK)[0].rstrip()) for line in kept]


def _cured(lines: list[str]) -> list[str]:
    """Put every cure in the place of its line."""
    out: list[str] = []
    replacing = False
    for line in lines:
        code, mark, cure = line.partition(MARK)
        if not mark:
            out.append(FOR_TOOLS.sub("", line))
        elif not code.strip() and not replacing:
            out.pop()  # the cure stands below the line that it replaces
        if cure.strip():
            out.append(line[: len(line) - len(line.lstrip())] + cure.strip())
        replacing = bool(mark)
    return out


def examples() -> dict[str, Example]:
    """Return for every check the first of its failing examples that says how it is fixed."""
    found: dict[str, Example] = {}
    for path in sorted(
        [*(ROOT / "tests/checks").glob("test_*.py"), *(ROOT / "tests/evidence/recorded").glob("test_*.py")]
    ):
        source = _source(path)
        for check, node in source.failing_examples():
            if check not in found and (example := _example(source, check, node)):
                found[check] = example
    return found


def _example(source: Source, check: str, node: ast.FunctionDef) -> Example | None:
    excerpt = Excerpt({}, set(), {})
    try:
        excerpt.add(source, node.name)
    except ValueError:  # two of its helpers have one name, so that the code cannot stand on one page
        return None
    if not any(MARK in line for part in excerpt.parts.values() for line in part):
        return None
    about = ast.get_docstring(node) or ""
    file = source.path.relative_to(ROOT).as_posix()
    return Example(check, node.name, file, _kind(node), about, **excerpt.code(node.name))
