"""Find attention in a recorded run by its structure: a softmax of a product whose result feeds another product."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.experiments.axes import KEEPS_VALUES, PRODUCTS, contracted, is_contracted, moved_axis
from nbdebug.experiments.tape.ops import Op, Recording, Use
from nbdebug.experiments.tape.taint import Taint

__all__ = ["BLOCKED", "FUSED", "Attention", "attentions"]

BLOCKED = -5e3  # scores below are masked: -inf, the least number of a dtype, -1e9, -1e4 and a score
FUSED = ("scaled_dot_product_attention", "multi_head_attention_forward")
ELEMENTWISE = (
    *KEEPS_VALUES, "add", "add_", "radd", "sub", "sub_", "where", "clamp", "tanh", "__setitem__", "as_strided",
    "mul", "mul_", "rmul", "div", "div_", "masked_scatter", "transpose", "permute", "view", "reshape", "squeeze",
    "unsqueeze", "__getitem__", "flatten",
)  # fmt: skip
RESHAPES = ("view", "reshape", "transpose", "permute", "unsqueeze", "squeeze", "contiguous", "flatten", "expand", "mT")
SCALES = ("mul", "mul_", "rmul", "div", "div_")
NORMALIZES = ("normalize", "layer_norm", "rms_norm", "group_norm", "cosine_similarity", "norm", "linalg_norm", "rsqrt")
FARTHEST = 25  # ops between the projections and the product: heads, rotations, norms
MADE_BY = ("linear", "conv1d", "conv2d", "addmm", "embedding", "gru", "lstm")  # queries and keys begin there


@dataclass(frozen=True)
class Attention:
    """One attention of a run: which keys each query may see, and how its scores are normalized.

    `allowed` is (samples, queries, keys) or (1, queries, keys); heads are merged. `is_contracted` says whether the
    product with the values sums over the axis of the softmax, `depth` how many features a score is summed over.
    `heads` are the scores of each head as (samples, heads, queries, keys), where only these can be computed.
    """

    module: str
    op: str
    shape: tuple[int, ...]
    axis: int
    is_contracted: bool | None
    depth: int | None
    is_scaled: bool
    scores: torch.Tensor | None
    allowed: torch.Tensor | None
    heads: torch.Tensor | None = None


def attentions(recording: Recording) -> Iterator[Attention]:
    """Yield every attention of a run, in its order; what is not kept of it is None."""
    ops, users = _leading(recording), dict[int, list[Op]]()
    for op in ops:
        for number in op.inputs:
            users.setdefault(number, []).append(op)
    for op in ops:
        if op.name == "softmax":
            found = _by_softmax(recording, op, users)
            if found is not None:
                yield found
        elif op.name == FUSED[0]:
            yield _fused(recording, op)
        elif op.name == FUSED[1]:
            yield _multi_head(recording, op)


def _leading(recording: Recording) -> list[Op]:
    """Return the ops that lead to a loss, in their order; those of other passes do not."""
    wanted, found = set(recording.roots or recording.differentiated), []
    for op in reversed(recording.ops):
        if wanted.intersection(op.made):
            wanted.update(op.inputs)
            found.append(op)
    return found[::-1]


def _by_softmax(recording: Recording, op: Op, users: dict[int, list[Op]]) -> Attention | None:
    axis = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 else None)
    given = op.args[0] if op.args else op.kwargs.get("input")
    if not isinstance(given, Use) or len(op.outputs) != 1 or not isinstance(axis, int):
        return None
    path = _back_to_product(recording, given.number)
    shape = recording.values[given.number].shape
    if path is None or len(shape) < 2:
        return None
    axis %= len(shape)
    product, answers = path[-1], list(_products(recording, op.outputs[0], axis, users))
    if not answers:
        return None
    known = [found for _, found in answers if found is not None]
    if any(_is_routed(recording, value, users, product) for value, _ in answers):
        known = []  # what competes for whom is meant: capsules, slots
    scores = recording.values[given.number].tensor
    return Attention(
        op.module, "softmax", shape, axis, any(known) if known else None, contracted(recording, product),
        _is_scaled(recording, path), scores,
        scores > BLOCKED if scores is not None and axis == len(shape) - 1 else None,
    )  # fmt: skip


def _back_to_product(recording: Recording, number: int) -> list[Op] | None:
    """Return the ops from a softmax back to the product of two tensors that are both computed from data."""
    path: list[Op] = []
    while len(path) < FARTHEST:
        op = recording.producer(number)
        if op is None:
            return None
        path.append(op)
        values = [(n, recording.values[n]) for n in op.inputs]
        data = [n for n, value in values if value.taint & Taint.BATCH and value.requires_grad]
        if op.name in PRODUCTS:
            return path if len(set(data)) == 2 or (len(data) == 1 and len(set(op.inputs)) == 1) else None
        if op.name not in ELEMENTWISE or not data:
            return None
        number = data[0]
    return None


def _products(
    recording: Recording, number: int, axis: int, users: dict[int, list[Op]]
) -> Iterator[tuple[int, bool | None]]:
    """Yield the values that the weights are multiplied with, and whether the product sums over the softmax's axis."""
    stack = [(number, axis)]
    while stack:
        here, at = stack.pop()
        for op in users.get(here, []):
            if op.name in PRODUCTS:
                others = [n for n in op.inputs if n != here and recording.values[n].taint & Taint.BATCH]
                yield from ((n, is_contracted(recording, op, here, at)) for n in others[:1])
            elif (moved := moved_axis(recording, op, here, at)) is not None:
                stack.append(moved)


def _is_routed(recording: Recording, value: int, users: dict[int, list[Op]], scores: Op) -> bool:
    """Whether the same values are weighted again and again, as where they are routed to what agrees with them."""
    stack, products = [_origin(recording, value)], set[int]()
    while stack:
        number = stack.pop()
        for op in users.get(number, []):
            if op.name in PRODUCTS and op is not scores:
                products.add(op.index)
            elif op.name in RESHAPES:
                stack += op.outputs
    return len(products) > 1


def _origin(recording: Recording, number: int) -> int:
    op = recording.producer(number)
    while op is not None and op.name in RESHAPES:
        number = op.inputs[0]
        op = recording.producer(number)
    return number


def _is_scaled(recording: Recording, path: list[Op]) -> bool:
    """Whether scores, queries or keys are multiplied with a single number or normalized."""
    if any(_scales(recording, op) for op in path[:-1]) or path[-1].kwargs.get("alpha", 1) != 1:
        return True
    seen, stack = set[int](), list(path[-1].inputs)
    while stack and len(seen) < 4 * FARTHEST:
        number = stack.pop()
        op = recording.producer(number)
        if number in seen or op is None or op.name in MADE_BY or op.name in PRODUCTS:
            continue
        seen.add(number)
        if _scales(recording, op) or op.name in NORMALIZES:
            return True
        stack += [n for n in op.inputs if recording.values[n].taint & Taint.BATCH]
    return False


def _scales(recording: Recording, op: Op) -> bool:
    if op.name not in SCALES:
        return False
    parts: list[Any] = [*op.args, *op.kwargs.values()][:2]
    shapes = [recording.values[part.number].shape if isinstance(part, Use) else () for part in parts]
    return any(not shape or all(size == 1 for size in shape) or shape[-1] == 1 for shape in shapes)


def _fused(recording: Recording, op: Op) -> Attention:
    given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale"), op.args, strict=False))
    given |= op.kwargs
    query, key = (recording.tensor_of(given.get(name)) for name in ("query", "key"))
    depth = query.shape[-1] if query is not None else None
    scale = given.get("scale")
    scores = allowed = None
    if query is not None and key is not None and query.shape[:-2] == key.shape[:-2]:
        factor = float(scale) if isinstance(scale, (int, float)) else query.shape[-1] ** -0.5
        scores = (query.detach().float() @ key.detach().float().transpose(-1, -2)) * factor
        mask = recording.tensor_of(given.get("attn_mask"))
        allowed = torch.ones_like(scores, dtype=torch.bool)
        if mask is not None:
            allowed = allowed & (mask if mask.dtype == torch.bool else mask > BLOCKED)
        if given.get("is_causal"):
            allowed = allowed & torch.ones_like(allowed[(0,) * (allowed.dim() - 2)]).tril()
    shape = tuple(scores.shape) if scores is not None else ()
    is_scaled = scale is None or abs(float(scale) - 1.0) > 1e-9
    return Attention(op.module, op.name, shape, max(len(shape) - 1, 0), True, depth, is_scaled, scores, allowed)


def _multi_head(recording: Recording, op: Op) -> Attention:
    """Read the masks of `nn.MultiheadAttention`, whose scores are not seen."""
    query, key = (recording.tensor_of(part) for part in op.args[:2])
    padding, mask = (recording.tensor_of(op.kwargs.get(name)) for name in ("key_padding_mask", "attn_mask"))
    allowed = None
    if query is not None and key is not None and query.dim() == 3:
        queries, keys, rows = query.shape[0], key.shape[0], query.shape[1]
        allowed = torch.ones(rows, queries, keys, dtype=torch.bool)
        if mask is not None and mask.shape[-2:] == (queries, keys):
            seen = ~mask if mask.dtype == torch.bool else mask > BLOCKED
            seen = seen.reshape(-1, queries, keys)
            heads = len(seen) // rows
            allowed = allowed & (seen if len(seen) == 1 else seen.reshape(rows, heads, queries, keys).any(1))
        if padding is not None:
            allowed = allowed & (~padding if padding.dtype == torch.bool else padding > BLOCKED)[:, None]
    shape = tuple(allowed.shape) if allowed is not None else ()
    weight = recording.tensor_of(op.args[5]) if query is not None else None
    scores = _projected(op, query, key, weight) if query is not None and key is not None else None
    return Attention(op.module, op.name, shape, 2, True, None, True, None, allowed, scores)


def _projected(op: Op, query: torch.Tensor, key: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor | None:
    """Return the scores of `nn.MultiheadAttention` without its biases, where queries and keys share their size."""
    width, heads = query.shape[-1], op.args[4]
    if weight is None or weight.shape != (3 * width, width) or key.shape[-1] != width or query.dim() != 3:
        return None
    parts = (
        part.detach().transpose(0, 1) @ w.detach().T for part, w in zip((query, key), weight.chunk(3), strict=False)
    )
    q, k = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts)
    scores: torch.Tensor = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return scores
