"""How a patch is written in the user's own code: for each, the edits of a function that holds the place.

An edit is only offered where one place of the function can be meant; otherwise there is none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from nbdebug.fixes.source.text import Edit, Source, call_name

__all__ = ["EDITS", "Part", "edits_for"]

Part = str  # "train_step", "compute_loss", "loss_fn" or "forward"
Write = Callable[..., list[Edit]]
EDITS: dict[str, tuple[tuple[Part, ...], Write]] = {}

STEP, LOSS, FORWARD = ("train_step",), ("compute_loss", "loss_fn", "train_step"), ("forward",)
ACTIVATIONS = ("softmax", "log_softmax", "sigmoid", "tanh", "relu", "clamp", "softplus", "logsigmoid", "hardtanh")
LAYERS = {"Softmax", "LogSoftmax", "Sigmoid", "Tanh", "ReLU", "Softplus", "LogSigmoid", "Hardtanh"}
NAMESPACES = ("torch", "F", "nn", "nn.functional", "torch.nn.functional", "torch.nn")
CLIPPING = ("clip_grad_norm_", "clip_grad_value_", "unscale_")


def edits_for(name: str, part: Part, source: Source, settings: dict[str, Any]) -> list[Edit]:
    """Return the edits that make this patch in a function; empty where it has no place there, or several."""
    parts, write = EDITS.get(name, ((), lambda _: []))
    return write(source, **settings) if part in parts else []


def _edit(name: str, *parts: Part) -> Callable[[Write], Write]:
    def register(write: Write) -> Write:
        EDITS[name] = (parts, write)
        return write

    return register


@_edit("clear-gradients", *STEP)
def _clear(source: Source, **_: Any) -> list[Edit]:
    backward, step = _one(_statements(source, "backward")), _one(_statements(source, "step"))
    return [source.before(backward, f"{_owner(source, step)}.zero_grad()")] if backward and step else []


@_edit("plain-loop", *STEP)
def _in_order(source: Source, *, clip: float | None = None, **_: Any) -> list[Edit]:
    """Put zero_grad before backward, and the optimizer's step behind it."""
    if clip is not None:
        return _clipping(source, clip)
    backward = _one(_statements(source, "backward"))
    steps, zeros = _statements(source, "step"), _statements(source, "zero_grad")
    if backward is None or len(steps) > 1 or len(zeros) > 1:
        return []
    name = source.parameters[3] if len(source.parameters) > 3 else "optimizer"
    edits, owner = [], _owner(source, steps[0]) if steps else name
    zero = source.written(zeros[0]) if zeros else f"{owner}.zero_grad()"
    if not zeros or zeros[0].lineno > backward.lineno:
        edits += [source.before(backward, zero), *map(source.without, zeros)]
    if not steps or steps[0].lineno < backward.lineno:
        last = max([backward, *_statements(source, *CLIPPING)], key=lambda node: node.lineno)
        edits += [source.after(last, f"{owner}.step()"), *map(source.without, steps)]
    return edits


def _clipping(source: Source, clip: float) -> list[Edit]:
    calls = source.calls("clip_grad_norm_", "clip_grad_value_")
    if len(calls) != 1:
        return []
    named = [word.value for word in calls[0].keywords if word.arg in ("max_norm", "clip_value")]
    limit = named[0] if named else calls[0].args[1] if len(calls[0].args) > 1 else None
    return [Edit.of(limit, f"{clip:.3g}")] if limit is not None else []


@_edit("switch-to-training", *STEP)
def _training(source: Source, **_: Any) -> list[Edit]:
    model = source.parameters[0] if source.parameters else "model"
    evals = [call for call in source.calls("eval") if source.written(call) == f"{model}.eval()"]
    if evals:
        return [Edit.of(call, f"{model}.train()") for call in evals]
    first = source.body[0]
    is_documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(source.body) > 1
    return [source.before(source.body[1] if is_documented else first, f"{model}.train()")]


@_edit("drop-last-activation", *FORWARD, *LOSS)
def _no_activation(source: Source, *, instead: str = "", layers: Iterable[str] = (), **_: Any) -> list[Edit]:
    """Take away the activation that makes what is returned; in a loss, the only one that there is."""
    call = _returned_activation(source, tuple(layers)) or _one(source.calls("softmax", "log_softmax", "sigmoid"))
    inside = _argument(call) if call is not None else None
    if call is None or inside is None:
        return []
    text = source.written(inside)
    return [Edit.of(call, f"torch.{instead}({text})" if instead else text)]


def _returned_activation(source: Source, layers: tuple[str, ...]) -> ast.Call | None:
    returned = _one(list(source.nodes(ast.Return)))
    value = returned.value if returned is not None else None
    if isinstance(value, ast.Name):
        writes = [n for n in source.nodes(ast.Assign) if [ast.unparse(t) for t in n.targets] == [value.id]]
        value = writes[-1].value if writes else value
    is_layer = isinstance(value, ast.Call) and source.written(value.func).removeprefix("self.") in layers
    return value if isinstance(value, ast.Call) and (call_name(value) in ACTIVATIONS or is_layer) else None


@_edit("softmax-dimension", *FORWARD, *LOSS)
def _other_dim(source: Source, *, wrong: int, right: int, **_: Any) -> list[Edit]:
    dims = [_dim(call, source) for call in source.calls("softmax", "log_softmax", "Softmax", "LogSoftmax")]
    return [Edit.of(dim, str(right)) for dim in dims if dim is not None and ast.unparse(dim) == str(wrong)]


def _dim(call: ast.Call, source: Source) -> ast.expr | None:
    place = 0 if _is_method(call) else 1
    named = [word.value for word in call.keywords if word.arg == "dim"]
    return named[0] if named else call.args[place] if len(call.args) > place else None


@_edit("guard-operation", *FORWARD, *LOSS)
def _guarded(source: Source, *, operation: str, least: float = 1e-8, **_: Any) -> list[Edit]:
    if operation == "div":
        division = _one([node for node in source.nodes(ast.BinOp) if isinstance(node.op, ast.Div)])
        divisor = division.right if division is not None and not isinstance(division.right, ast.Constant) else None
        return [Edit.of(divisor, f"({source.written(divisor)} + {least:g})")] if divisor is not None else []
    call = _one(source.calls(operation))
    inside = _argument(call) if call is not None else None
    if inside is None:
        return []
    text = source.written(inside)
    is_simple = isinstance(inside, (ast.Name, ast.Call, ast.Attribute, ast.Subscript))
    return [Edit.of(inside, f"{text if is_simple else f'({text})'}.clamp(min={least:g})")]


@_edit("keep-graph", *FORWARD, *LOSS)
def _in_graph(source: Source, **_: Any) -> list[Edit]:
    """Leave out the one call that cuts the graph."""
    cuts: list[ast.expr] = [*source.calls("detach", "item")]
    cuts += [node for node in source.nodes(ast.Attribute) if node.attr == "data"]
    blocks = [
        node for node in source.nodes(ast.With)
        if len(node.items) == 1 and call_name(node.items[0].context_expr) in ("no_grad", "inference_mode")
    ]  # fmt: skip
    returned = {id(call) for node in source.nodes(ast.Return) for call in ast.walk(node)}
    if len(source.parameters) > 3:  # a step may return `loss.item()`: nothing is trained by that
        cuts = [cut for cut in cuts if id(cut) not in returned]
    if len(cuts) + len(blocks) != 1:
        return []
    if blocks:
        return [Edit.of(blocks[0].items[0].context_expr, "torch.enable_grad()")]
    holder = cuts[0].func if isinstance(cuts[0], ast.Call) else cuts[0]
    return [Edit.of(cuts[0], source.written(holder.value))] if isinstance(holder, ast.Attribute) else []


@_edit("negate-loss", "compute_loss", "loss_fn")
def _negated(source: Source, **_: Any) -> list[Edit]:
    returned = _one(list(source.nodes(ast.Return)))
    value = returned.value if returned is not None else None
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return [Edit.of(value, source.written(value.operand))]
    return [Edit.of(value, f"-({source.written(value)})")] if value is not None else []


@_edit("average-loss", *LOSS)
def _averaged(source: Source, **_: Any) -> list[Edit]:
    words = [w.value for call in _all_calls(source) for w in call.keywords if w.arg == "reduction"]
    sums = [value for value in words if isinstance(value, ast.Constant) and value.value == "sum"]
    if sums:
        return [Edit.of(value, '"mean"') for value in sums]
    call = _one(source.calls("sum"))
    return [Edit.of(call, _renamed(source, call, "sum", "mean"))] if call is not None and not call.args[1:] else []


@_edit("reduce-loss", "compute_loss", "loss_fn")
def _reduced(source: Source, **_: Any) -> list[Edit]:
    words = [w.value for call in _all_calls(source) for w in call.keywords if w.arg == "reduction"]
    if len(words) == 1:
        return [Edit.of(words[0], '"mean"')]
    returned = _one(list(source.nodes(ast.Return)))
    value = returned.value if returned is not None else None
    return [Edit.of(value, f"({source.written(value)}).mean()")] if value is not None else []


@_edit("shape-target", "compute_loss", "train_step")
def _shaped(source: Source, **_: Any) -> list[Edit]:
    losses = [c for c in _all_calls(source) if call_name(c) in ("loss_fn", "criterion") or "loss" in call_name(c)]
    pairs = [c for c in losses if len(c.args) == 2 and all(isinstance(a, ast.Name) for a in c.args)]
    if len(pairs) != 1:
        return []
    output, target = (source.written(argument) for argument in pairs[0].args)
    return [Edit.of(pairs[0].args[1], f"{target}.reshape({output}.shape)")]


@_edit("no-chance-in-eval", *FORWARD)
def _only_in_training(source: Source, **_: Any) -> list[Edit]:
    edits = []
    for call in source.calls("dropout", "dropout2d", "alpha_dropout"):
        switch = [word.value for word in call.keywords if word.arg == "training"]
        if switch and ast.unparse(switch[0]) == "True":
            edits.append(Edit.of(switch[0], "self.training"))
        elif not switch and not ast.unparse(call.func).startswith("self."):
            last = [*call.args, *(word.value for word in call.keywords)][-1]
            edits.append(Edit.of(last, f"{source.written(last)}, training=self.training"))
    return edits


def _statements(source: Source, *names: str) -> list[ast.stmt]:
    """Return the statements that consist of a call of such a method; a step in it takes no value from elsewhere."""
    return [
        node for node in source.nodes((ast.Expr, ast.Assign))
        if isinstance(node.value, ast.Call) and call_name(node.value) in names
    ]  # fmt: skip


def _owner(source: Source, statement: ast.stmt) -> str:
    call = getattr(statement, "value", None)
    function = call.func if isinstance(call, ast.Call) else None
    owner = source.written(function.value) if isinstance(function, ast.Attribute) else "optimizer"
    first = call.args[0] if isinstance(call, ast.Call) and call.args else None
    return source.written(first) if first is not None and "scaler" in owner else owner


def _all_calls(source: Source) -> list[ast.Call]:
    return list(source.nodes(ast.Call))


def _is_method(call: ast.Call) -> bool:
    """Whether a call is one of a tensor's methods, and not of a function of torch's."""
    holder = call.func.value if isinstance(call.func, ast.Attribute) else None
    return holder is not None and ast.unparse(holder) not in NAMESPACES


def _argument(call: ast.Call) -> ast.expr | None:
    """Return what an activation is applied to: its first argument, or the tensor whose method it is."""
    is_layer = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"
    if _is_method(call) and not is_layer:
        return call.func.value if isinstance(call.func, ast.Attribute) else None
    return call.args[0] if call.args else None


def _renamed(source: Source, call: ast.Call, old: str, new: str) -> str:
    name = source.written(call.func)
    return name.removesuffix(old) + new + source.written(call).removeprefix(name)


def _one(found: list[Any]) -> Any:
    return found[0] if len(found) == 1 else None
