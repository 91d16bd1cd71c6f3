"""Edits of the line that creates an optimizer, a loss, a loader or a layer: where its source is known."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from nbdebug.core.remedy import Patch
from nbdebug.experiments.source_lines import users_frame
from nbdebug.fixes.source.text import Edit, Source, call_name, parsed, source_of
from nbdebug.setup import Setup
from nbdebug.setup.batch_layout import unwrap

__all__ = ["creation_edits"]

PARTS = {
    "multiply-learning-rate": "optimizer", "set-optimizer-option": "optimizer", "train-everything": "optimizer",
    "shuffle": "loader", "reload-batches": "loader", "replace-loss": "loss_fn", "average-loss": "loss_fn",
}  # fmt: skip
LOSSES = {
    "cross-entropy": "nn.CrossEntropyLoss()", "binary with logits": "nn.BCEWithLogitsLoss()",
    "binary": "nn.BCELoss()", "squared": "nn.MSELoss()",
}  # fmt: skip


def creation_edits(setup: Setup, where: str, patch: Patch) -> Iterator[tuple[str, Source, str]]:
    """Yield the change of the one line that creates what this patch changes."""
    if patch.name in ("register-hidden", "samples-first"):
        yield from _in_constructor(setup, where, patch.name)
    part = PARTS.get(patch.name)
    made: Any = {"optimizer": setup.optimizer, "loader": setup.feed.loader, "loss_fn": setup.loss_fn}.get(part or "")
    created = _creation(made) if made is not None else None
    if created is None:
        return
    source, call = created
    edits = _edits(setup, patch, source, call, made)
    if edits:
        yield "", source, source.edited(edits)


def _edits(setup: Setup, patch: Patch, source: Source, call: ast.Call, made: Any) -> list[Edit]:
    words = dict(patch.settings)
    if patch.name == "multiply-learning-rate":
        rates = {group["lr"] for group in made.param_groups}
        return _set(source, call, "lr", 1, f"{rates.pop() * words['factor']:.3g}") if len(rates) == 1 else []
    if patch.name == "set-optimizer-option" and "[" not in words["option"]:
        return _set(source, call, words["option"], 1 if words["option"] == "lr" else None, f"{words['value']:g}")
    if patch.name == "train-everything" and call.args:
        names = [n for n, v in _names_of(setup.model)]
        return [Edit.of(call.args[0], f"{names[0]}.parameters()")] if names else []
    if patch.name == "shuffle" and _has_no_sampler(call):
        return _set(source, call, "shuffle", 2, "True")
    if patch.name == "reload-batches" and words.get("size"):
        return _set(source, call, "batch_size", 1, str(words["size"]))
    if patch.name == "replace-loss" and words.get("loss") in LOSSES and call_name(call).endswith("Loss"):
        return [Edit.of(call, LOSSES[words["loss"]])]
    if patch.name == "average-loss":
        return _set(source, call, "reduction", None, '"mean"')
    return []


def _set(source: Source, call: ast.Call, name: str, place: int | None, value: str) -> list[Edit]:
    """Set an argument of a call, where it stands or behind the others."""
    named = [word.value for word in call.keywords if word.arg == name]
    if any(word.arg is None for word in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        return []  # it may be among those
    old = named[0] if named else call.args[place] if place is not None and len(call.args) > place else None
    if old is not None:
        return [Edit.of(old, value)]
    arguments = [*call.args, *(word.value for word in call.keywords)]
    if not arguments:
        return [Edit.of(call, f"{source.written(call.func)}({name}={value})")]
    last = max(arguments, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    return [Edit.of(last, f"{source.written(last)}, {name}={value}")]


def _has_no_sampler(call: ast.Call) -> bool:
    return not any(word.arg in ("sampler", "batch_sampler") for word in call.keywords)


def _names_of(value: Any) -> list[tuple[str, Any]]:
    """Return the names by which the code that called nbdebug knows an object."""
    frame = users_frame()
    spaces = [frame.f_locals, frame.f_globals] if frame is not None else []
    return [(name, held) for space in spaces for name, held in dict(space).items() if held is value]


def _creation(made: Any) -> tuple[Source, ast.Call] | None:
    """Return the one call that creates an object which the calling code knows by a name."""
    frame, names = users_frame(), {name for name, _ in _names_of(made) if not name.startswith("_")}
    if frame is None or not names:
        return None
    for source in _sources(frame):
        calls = [
            node.value for node in source.nodes(ast.Assign)
            if any(isinstance(t, ast.Name) and t.id in names for t in node.targets)
            and isinstance(node.value, ast.Call) and call_name(node.value) == type(made).__name__
        ]  # fmt: skip
        if len(calls) == 1:
            return source, calls[0]
        if calls:
            return None
    return None


def _sources(frame: FrameType) -> Iterator[Source]:
    """Yield the source of the running function, and that of its file or, in a notebook, of every cell."""
    function = _whole(frame.f_code)
    if function is not None:
        yield function
    is_cell = "ipykernel_" in frame.f_code.co_filename or frame.f_code.co_filename.startswith("<ipython-input")
    files = [frame.f_code.co_filename]
    if is_cell:
        files += [name for name in reversed(list(linecache.cache)) if "ipykernel_" in name or "<ipython-input" in name]
    for file in dict.fromkeys(files):
        text = "".join(linecache.getlines(file, frame.f_globals))
        tree = parsed(text) if text else None
        if tree is not None:
            body = [node for node in tree.body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
            yield Source(file, 1, text, ast.Module(body, []))


def _whole(code: CodeType) -> Source | None:
    if code.co_name == "<module>":
        return None
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError, IndexError):
        return None
    tree = parsed("".join(lines))
    return Source(code.co_filename, first, "".join(lines), tree) if tree is not None else None


def _in_constructor(setup: Setup, where: str, name: str) -> Iterator[tuple[str, Source, str]]:
    """Yield the change of the line in `__init__` that creates this part of a module of the user's."""
    owner: Any = unwrap(setup.model)
    *way, last = where.split(".") if where else [""]
    for step in way:
        child = dict(owner.named_children()).get(step) if hasattr(owner, "named_children") else None
        owner = child if child is not None and source_of(type(child).__init__) is not None else owner
    source = source_of(type(owner).__init__)
    if source is None:
        return
    wanted = {f"self.{part.split('[')[0]}" for part in (*way, last)}
    writes = [n for n in source.nodes(ast.Assign) if {ast.unparse(t) for t in n.targets} & wanted]
    if len(writes) != 1:
        return
    value, edits = writes[0].value, list[Edit]()
    if name == "samples-first" and isinstance(value, ast.Call):
        edits = _set(source, value, "batch_first", None, "True")
    elif isinstance(value, (ast.List, ast.ListComp)):
        edits = [Edit.of(value, f"nn.ModuleList({source.written(value)})")]
    elif isinstance(value, ast.Dict):
        edits = [Edit.of(value, f"nn.ModuleDict({source.written(value)})")]
    elif isinstance(value, ast.Call) and call_name(value) in ("randn", "zeros", "ones", "rand", "tensor", "empty"):
        edits = [Edit.of(value, f"nn.Parameter({source.written(value)})")]
    if edits:
        yield "", source, source.edited(edits)
