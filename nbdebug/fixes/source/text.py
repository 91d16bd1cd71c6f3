"""The source of a function of the user's: find nodes in it, exchange pieces of it, and show the change as a diff."""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nbdebug.setup.source_locations import shown_file
from nbdebug.setup.user_code import is_users_function

__all__ = ["Edit", "Source", "call_name", "parsed", "source_of"]

CONTEXT = 2  # lines around a change of a function; around other lines none, as they may hold what is not to be shared
_Wrapped = "if 1:\n"  # lets an indented piece be parsed without touching what its strings hold


@dataclass(frozen=True)
class Edit:
    """One piece of a source and what takes its place; lines count from 1, columns are bytes, as in `ast`."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str

    @classmethod
    def of(cls, node: ast.expr | ast.stmt, text: str) -> Edit:
        """Exchange a whole node."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return cls((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text)


@dataclass(frozen=True)
class Source:
    """A piece of a file: its text as it stands there, its first line, and its syntax tree with lines of the piece."""

    file: str
    first: int
    text: str
    tree: ast.Module
    function: Any = None  # a plain function; none where the piece is a file, or the code that called nbdebug

    @property
    def body(self) -> list[ast.stmt]:
        """Return the statements of the function, or of the piece itself."""
        node = self.definition
        return node.body if node is not None else self.tree.body

    @property
    def definition(self) -> ast.FunctionDef | None:
        """Return the definition of the function."""
        return next((node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)), None)

    @property
    def parameters(self) -> list[str]:
        """Return the names of the positional parameters."""
        node = self.definition
        return [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)] if node is not None else []

    def nodes(self, kind: type | tuple[type, ...] = ast.AST) -> Iterator[Any]:
        """Return the nodes of this type in the order of the text."""
        found = [node for statement in self.body for node in ast.walk(statement) if isinstance(node, kind)]
        yield from sorted(found, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))

    def calls(self, *names: str) -> list[ast.Call]:
        """Return the calls of functions or methods with these names."""
        return [node for node in self.nodes(ast.Call) if call_name(node) in names]

    def written(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        return ast.get_source_segment(self.text, node) or ""

    def line(self, number: int) -> str:
        """Return a line of the piece with its end."""
        return self.text.splitlines(keepends=True)[number - 1]

    def indentation(self, node: ast.stmt) -> str:
        """Return the white space before a statement."""
        line = self.line(node.lineno)
        return line[: len(line) - len(line.lstrip())]

    def before(self, node: ast.stmt, statement: str) -> Edit:
        """Insert a statement on a line of its own before another one."""
        place = (node.lineno, 0)
        return Edit(place, place, f"{self.indentation(node)}{statement}\n")

    def after(self, node: ast.stmt, statement: str) -> Edit:
        """Insert a statement on a line of its own behind another one."""
        place = ((node.end_lineno or node.lineno) + 1, 0)
        return Edit(place, place, f"{self.indentation(node)}{statement}\n")

    def without(self, node: ast.stmt) -> Edit:
        """Leave out a statement with its lines."""
        return Edit((node.lineno, 0), ((node.end_lineno or node.lineno) + 1, 0), "")

    def edited(self, edits: Iterable[Edit]) -> str:
        """Return the text with these pieces exchanged."""
        text = self.text if self.text.endswith("\n") else self.text + "\n"
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        data = b"".join(lines)
        for edit in sorted(edits, key=lambda one: (one.start, one.end), reverse=True):
            start, end = (starts[line - 1] + column for line, column in (edit.start, edit.end))
            data = data[:start] + edit.text.encode() + data[end:]
        return data.decode()

    def diff(self, changed: str) -> str:
        """Return the change as a unified diff of the file; empty where the text cannot be parsed or is the same."""
        if changed == self.text or parsed(changed) is None:
            return ""
        whole = linecache.getlines(self.file) or [*"\n" * (self.first - 1), *self.text.splitlines(keepends=True)]
        last = self.first - 1 + len(self.text.splitlines())
        if "".join(whole[self.first - 1 : last]).rstrip("\n") != self.text.rstrip("\n"):
            return ""  # the file is another one by now
        after = [*whole[: self.first - 1], *changed.splitlines(keepends=True), *whole[last:]]
        name = shown_file(self.file)
        around = CONTEXT if self.function is not None else 0
        lines = difflib.unified_diff(whole, after, f"a/{name}", f"b/{name}", n=around)
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def call_name(node: ast.AST) -> str:
    """Return the last part of the name of what a call calls; empty where it has none."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def source_of(function: Any) -> Source | None:
    """Return the source of a plain function or method that the user wrote; None where it is not at hand."""
    function = getattr(function, "__func__", function)
    if not is_users_function(function) or function.__name__ == "<lambda>":
        return None
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError, IndexError, SyntaxError):
        return None
    text = "".join(lines)
    tree = parsed(text)
    found = Source(function.__code__.co_filename, first, text, tree, function) if tree is not None else None
    return found if found is not None and found.definition is not None else None


def parsed(text: str) -> ast.Module | None:
    """Parse a piece that may be indented; its lines are counted from 1."""
    is_indented = text[:1] in (" ", "\t")
    try:
        tree = ast.parse(_Wrapped + text if is_indented else text)
    except (SyntaxError, ValueError):
        return None
    return ast.increment_lineno(tree, -1) if is_indented else tree
