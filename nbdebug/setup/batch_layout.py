"""How a model eats a batch: which parts are inputs, which are targets, and how `forward` wants them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch

from nbdebug.core.torch_compat import inside_compiled, script_schema
from nbdebug.setup.nested import Attr, Path, children, is_mapping_like, is_namedtuple, name_of

__all__ = ["BatchLayout", "Reading", "Signature", "read_batch", "signature_of", "unwrap"]

TARGET_NAMES = (
    "labels", "label", "targets", "target", "y", "y_true", "ys", "lbl", "lbls", "gt", "ground_truth", "classes",
    "class", "class_id", "output", "outputs", "truth", "annotation", "annotations", "mask", "masks", "score", "rating",
)  # fmt: skip
MASK_NAMES = {"mask", "masks", "outputs", "output", "score", "class", "classes"}


@dataclass(frozen=True)
class Signature:
    """What a model's `forward` asks for: names in order, how many are required, and whether it takes any."""

    names: tuple[str, ...] = ()
    required: int = 1
    any_positional: bool = False
    any_keyword: bool = False
    keyword_required: tuple[str, ...] = ()

    @property
    def most(self) -> int:
        """How many positional arguments it can take at the most."""
        return 99 if self.any_positional else len(self.names)


@dataclass(frozen=True)
class Reading:
    """Where in a batch the model's arguments and the targets are, with the reason for reading it so."""

    args: tuple[Path, ...] = ()
    kwargs: dict[str, Path] = field(default_factory=dict)
    target: Path | None = None
    reason: str = ""

    @property
    def input_paths(self) -> tuple[Path, ...]:
        """All places that the model receives, positional ones first."""
        return (*self.args, *self.kwargs.values())


@dataclass(frozen=True)
class BatchLayout:
    """How the samples lie in the tensors of a batch: how many, and along which dimension.

    `is_certain` is whether the loader itself tells it. `packed` names the input that assigns the rows to samples where
    those of all samples follow each other in dimension 0. `whole` says that the model runs on no part of a batch, and
    `refused` why a row is not a sample.
    """

    size: int
    axis: int = 0
    is_certain: bool = False
    packed: str = ""
    whole: bool = False
    refused: str = ""

    @property
    def time_first(self) -> bool:
        """Whether another dimension, mostly time, comes before that of the samples."""
        return self.axis > 0

    def __str__(self) -> str:
        """Return it in a few words."""
        if self.packed:
            return f"samples packed along dim 0 by {self.packed}"
        if self.refused:
            return f"{self.size} rows"
        return f"{self.size} samples along dim {self.axis}"


def unwrap(model: Any) -> Any:
    """Look through `torch.compile`, DataParallel and DistributedDataParallel at the model inside."""
    while True:
        if (inner := inside_compiled(model)) is not None:
            model = inner
        elif isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
            model = model.module
        else:
            return model


def signature_of(model: Any) -> Signature:
    """Read the signature of the model's forward; what cannot be read counts as one required argument."""
    inner = unwrap(model)
    if isinstance(inner, torch.jit.ScriptModule):
        schema = script_schema(inner)
        if schema is None:
            return Signature()
        arguments = [a for a in schema.arguments if a.name != "self"]
        required = sum(not a.has_default_value() for a in arguments)
        return Signature(tuple(a.name for a in arguments), required)
    function = inner.forward if isinstance(inner, torch.nn.Module) else inner
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return Signature()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return Signature(
        names=tuple(p.name for p in positional),
        required=sum(p.default is p.empty for p in positional),
        any_positional=any(p.kind is p.VAR_POSITIONAL for p in parameters),
        any_keyword=any(p.kind is p.VAR_KEYWORD for p in parameters),
        keyword_required=tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty),
    )


def read_batch(raw: Any, asks: Signature) -> Reading:
    """Decide from the batch's shape and the forward's signature what goes where."""
    parts = children(raw)
    if parts is None:
        return Reading(args=((),), reason="the batch is one tensor, so it is the input and there is no target")
    by_name = is_mapping_like(raw) or (not isinstance(raw, (list, tuple)))
    if is_namedtuple(raw):
        by_name = _target_key([step for step, _ in parts]) is not None
    if by_name:
        return _read_by_name(parts, asks)
    return _read_by_position([part for _, part in parts], [step for step, _ in parts], asks)


def _read_by_position(parts: list[Any], steps: list[Any], asks: Signature) -> Reading:
    if len(parts) == 1:
        return Reading(args=((steps[0],),), reason="the batch has one part, so it is the input and there is no target")
    needed = max(asks.required, 1)
    first = children(parts[0])
    if len(parts) >= 2 and first is not None and not _is_ragged(parts[0]):
        return _read_nested_first(parts, steps, first, asks)
    if len(parts) <= needed:
        return Reading(
            args=tuple((step,) for step in steps),
            reason=f"forward requires {needed} arguments and the batch has {len(parts)}: all of them are inputs",
        )
    count = needed
    if asks.most == len(parts) - 1 > needed and not _looks_like_labels(parts[needed]):
        count = asks.most  # forward(x, mask=None) with a batch of (x, mask, y)
    return Reading(
        args=tuple((step,) for step in steps[:count]),
        target=(steps[count],),
        reason=f"forward takes {count} argument{'s' * (count > 1)}; the rest of the batch is the target",
    )


def _read_nested_first(parts: list[Any], steps: list[Any], first: list[tuple[Any, Any]], asks: Signature) -> Reading:
    """Read `((x1, x2), y)` or `({"ids": …, "mask": …}, y)`: the first part holds all the inputs."""
    names = [str(step) for step, _ in first]
    if (is_mapping_like(parts[0]) or isinstance(first[0][0], Attr)) and (
        asks.any_keyword or set(names) <= set(asks.names)
    ):
        inner: dict[str, Path] = {str(step): (steps[0], step) for step, _ in first}
        return Reading(kwargs=inner, target=(steps[1],), reason="the first part's keys are arguments of forward")
    if not is_mapping_like(parts[0]) and asks.required >= 2 and asks.required <= len(first) <= asks.most:
        args = tuple((steps[0], step) for step, _ in first)
        return Reading(args=args, target=(steps[1],), reason="forward takes the parts of the first element one by one")
    return Reading(args=((steps[0],),), target=(steps[1],), reason="the batch is a pair: inputs and target")


def _read_by_name(parts: list[tuple[Any, Any]], asks: Signature) -> Reading:
    steps = {str(step): step for step, _ in parts}
    target_name = _target_key(list(steps))
    accepted = [name for name in steps if name in asks.names or name in asks.keyword_required]
    if target_name in accepted and target_name not in asks.names[: asks.required]:
        kwargs: dict[str, Path] = {name: (steps[name],) for name in accepted}
        taken: Path | None = None if target_name is None else (steps[target_name],)
        return Reading(kwargs=kwargs, target=taken, reason=f"forward takes {target_name!r} itself, with the inputs")
    inputs = [name for name in steps if name != target_name]
    target: Path | None = (steps[target_name],) if target_name is not None else None
    accepted = [name for name in inputs if name in accepted]
    if accepted and set(asks.names[: asks.required]) <= set(accepted):
        chosen = inputs if asks.any_keyword else accepted
        return Reading(kwargs={n: (steps[n],) for n in chosen}, target=target, reason=_named(chosen, target_name))
    if asks.any_keyword and not asks.names:
        return Reading(kwargs={n: (steps[n],) for n in inputs}, target=target, reason=_named(inputs, target_name))
    tensors = [name for name, (_, part) in zip(steps, parts, strict=True) if isinstance(part, torch.Tensor)]
    eaten = [name for name in inputs if name in tensors]
    if len(eaten) == 1 and asks.required <= 1 and asks.names[:1] not in (("batch",), ("data",), ("inputs",)):
        return Reading(args=((steps[eaten[0]],),), target=target, reason=f"{eaten[0]!r} is the only input")
    if asks.required == len(inputs) > 1:
        args = tuple((steps[name],) for name in inputs)
        return Reading(args=args, target=target, reason=f"forward takes {len(inputs)} arguments: {', '.join(inputs)}")
    return Reading(args=((),), target=target, reason="forward takes the whole batch")


def _named(names: list[str], target: str | None) -> str:
    return f"{', '.join(names)} are arguments of forward" + (f"; {target!r} is the target" if target else "")


def _target_key(names: list[Any]) -> str | None:
    lower = {str(name).lower(): str(name) for name in names}
    for candidate in TARGET_NAMES:
        if candidate in lower and not (candidate in MASK_NAMES and len(lower) < 2):
            return lower[candidate]
    return None


def _is_ragged(part: Any) -> bool:
    """Whether this is a list of samples of different lengths, as a collate for sequences leaves it."""
    if not isinstance(part, list) or not part or not all(isinstance(item, torch.Tensor) for item in part):
        return False
    return len({tuple(item.shape) for item in part}) > 1


def _looks_like_labels(part: Any) -> bool:
    return (
        isinstance(part, torch.Tensor) and part.dim() <= 1 and not part.is_floating_point() and part.dtype != torch.bool
    )


def describe(reading: Reading) -> str:
    """Say in one line which parts are inputs and which is the target."""
    eaten = [name_of(path) for path in reading.args]
    eaten += [f"{name}={name_of(path)}" for name, path in reading.kwargs.items()]
    target = name_of(reading.target) if reading.target is not None else "none"
    return f"inputs: {', '.join(eaten)}; target: {target} ({reading.reason})"
