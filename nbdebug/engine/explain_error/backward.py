"""Why a backward pass failed: what can still be read from the frames and the source after the forward is over."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import textwrap
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch
from torch import nn

from nbdebug.engine.explain_error.scene import Scene
from nbdebug.experiments.capture import paths_of
from nbdebug.experiments.inplace_changes import held_graphs
from nbdebug.experiments.shape_fixes import Suggestion
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.user_code import is_users_class

__all__ = ["about_backward"]

Found = dict[str, Any]
_CUTS = re.compile(
    r"\.detach\(|\.item\(|no_grad|inference_mode|\.argmax\(|torch\.tensor\(|\.numpy\(|\.data\b|\.round\("
)


def about_backward(kind: str, error: str, scene: Scene) -> Found:
    """Return what is known beyond the message: a place, a sentence, and what would fit."""
    about = {"second-backward": _second, "no-grad": _no_grad, "in-place": _in_place, "not-a-number": _not_a_number}
    return about[kind](error, scene) if kind in about else {}


def _second(error: str, scene: Scene) -> Found:
    for model in scene.models():
        held = held_graphs(model)
        if held:
            path, _, name = held[0].rpartition(".")
            return {
                "where": path or "model",
                "detail": f"{held[0]} keeps the autograd graph of the previous batch",
                "fits": [Suggestion.of_code(f"self.{name} = self.{name}.detach()")],
            }
    carried = [name for name, value in _variables(scene) if _has_graph(value) and value is not scene.backward_of]
    if carried:
        return {
            "detail": f"{' and '.join(carried[:3])} still {'has' if len(carried) == 1 else 'have'} an autograd graph",
            "fits": [Suggestion.of_code(f"{carried[0]} = {carried[0]}.detach()")],
        }
    return {"detail": "backward was already called on this loss"}


def _no_grad(error: str, scene: Scene) -> Found:
    frozen = [m for m in scene.models() if any(True for _ in m.parameters()) and not _trains(m)]
    if frozen:
        name = scene.name_of(frozen[0]) or "model"
        return {
            "where": name,
            "detail": f"no parameter of {name} has requires_grad=True",
            "fits": [Suggestion.of_code(f"{name}.requires_grad_(True)")],
        }
    if not torch.is_grad_enabled():
        return {"detail": "gradients are disabled", "fits": [Suggestion.of_code("torch.set_grad_enabled(True)")]}
    lines = [line for frame, _ in scene.users for line in _lines_of(frame) if _CUTS.search(line)]
    for model in scene.models():
        lines += [line for _, line in _forward_lines(model) if _CUTS.search(line)]
    if lines:
        return {"detail": f"these lines detach it: {'; '.join(dict.fromkeys(lines[:4]))}"}
    return {"detail": "the loss is not computed from the output of the model"}


def _in_place(error: str, scene: Scene) -> Found:
    """Name what was changed, and every line of the models' own forwards that changes something in place."""
    needed = re.search(r"\[([\d, ]*)\]\], which is output \d+ of (\w+)", error)
    what = f"the tensor of shape ({needed[1]}) that {_operation(needed[2])} returned" if needed else "a tensor"
    lines = [(path, line) for model in scene.models() for path, line in _in_place_lines(model)]
    lines += [("", line) for frame, _ in scene.users for line in _writes(_source(frame))]
    if not lines or "leaf" in error:
        return {"detail": f"{what} was modified after it was used"} if needed else {}
    listed = "; ".join(f"{line} in {path}" if path else line for path, line in lines[:4])
    return {"where": lines[0][0], "detail": f"{what} was modified after it was used; in-place operations: {listed}"}


def _not_a_number(error: str, scene: Scene) -> Found:
    loss = scene.backward_of
    if loss is None:
        return {}
    name = scene.name_of(loss) or "loss"
    fit = Suggestion.of_code(f"{name}.mean().backward()")
    return {"detail": f"{name} has shape {tuple(loss.shape)}", "fits": [fit]}


def _operation(name: str) -> str:
    return re.sub(r"Backward\d*$", "", name).lower()


def _trains(model: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in model.parameters())


def _has_graph(value: Any) -> bool:
    return any(tensor.grad_fn is not None for tensor in tensors_in(value))


def _variables(scene: Scene) -> Iterator[tuple[str, Any]]:
    """Return the tensors, and nests of tensors, that the user's innermost frame holds."""
    if scene.users:
        for name, value in list(scene.users[-1][0].f_locals.items()):
            if not name.startswith("_") and isinstance(value, (torch.Tensor, tuple, list)):
                yield name, value


def _lines_of(frame: FrameType) -> list[str]:
    return [line.strip() for line in _source(frame).splitlines()]


def _source(frame: FrameType) -> str:
    """Return the source of the function that a frame runs, or of the whole cell."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if frame.f_code.co_name == "<module>":
        return "".join(lines)
    return textwrap.dedent("".join(inspect.getblock(lines[frame.f_code.co_firstlineno - 1 :])))


def _forward_lines(model: nn.Module) -> Iterator[tuple[str, str]]:
    for path, source in _forwards(model):
        for line in source.splitlines():
            yield path, line.strip()


def _forwards(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Return the source of every forward that the user wrote, once for each class, with the first path."""
    seen: set[type] = set()
    for path, module in paths_of(model).items():
        if type(module) in seen or not is_users_class(type(module)):
            continue
        seen.add(type(module))
        try:
            yield path, textwrap.dedent(inspect.getsource(type(module).forward))
        except (OSError, TypeError):
            continue


def _in_place_lines(model: nn.Module) -> Iterator[tuple[str, str]]:
    for path, source in _forwards(model):
        for line in _writes(source):
            yield path, line
    for path, module in paths_of(model).items():
        if getattr(module, "inplace", False) is True:
            yield path, f"{type(module).__name__}(inplace=True)"


def _writes(source: str) -> Iterator[str]:
    """Return the statements that change a tensor in place: `x += …`, `x[…] = …`, `x.relu_()`."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        is_write = isinstance(node, ast.AugAssign) or (
            isinstance(node, ast.Assign) and any(isinstance(target, ast.Subscript) for target in node.targets)
        )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_write = bool(re.fullmatch(r"[a-z]\w*[a-z0-9]_", node.func.attr)) and node.func.attr != "requires_grad_"
        if is_write:
            yield ast.unparse(node)
