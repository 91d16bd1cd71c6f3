"""Where a NaN or an infinity is born: the operation that made it out of finite numbers, and its way to the loss.

Anomaly mode names the operation that passes a NaN on. Here every operation is watched with what went in and what came
out, and each bad value carries the name of its origin along. Intended infinities (a mask of -inf) are
born on purpose: they count only when an operation makes a NaN of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.core.torch_compat import TorchDispatchMode, schema_of, tree_leaves
from nbdebug.experiments.source_lines import line_now
from nbdebug.experiments.tensor_stats import floats_of
from nbdebug.setup.tensor_memory import address_of

__all__ = ["NonFiniteOrigin", "OperationWatch", "is_bad", "value_at"]

_UNSET = ("empty", "new_empty", "resize")  # what is in fresh memory means nothing


@dataclass(frozen=True)
class NonFiniteOrigin:
    """One operation that made a bad value: which, where, from which values."""

    operation: str
    where: str
    source: str
    kind: str  # "NaN" or "inf"
    on_purpose: bool
    values: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    position: tuple[int, ...] = ()
    result: str = ""


class OperationWatch(TorchDispatchMode):
    """Watch every operation, and remember for each bad tensor which origins it comes from."""

    def __init__(self, place: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._place = place
        self._origins: dict[int, list[NonFiniteOrigin]] = {}
        self._alive: list[torch.Tensor] = []  # or their addresses would be given to others

    def given(self, tensor: torch.Tensor, name: str, what: str) -> None:
        """Say where a tensor that was bad from the beginning comes from."""
        if kind := is_bad(tensor):
            self._mark(tensor, [NonFiniteOrigin(what, name, "", kind, kind == "inf" and what == "buffer")])

    def origin_of(self, tensor: torch.Tensor) -> NonFiniteOrigin | None:
        """Return the origin of a bad tensor: the first unintended one."""
        origins = self._origins.get(address_of(tensor), [])
        return next((b for b in origins if not b.on_purpose), origins[0] if origins else None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation; compare what went in with what came out."""
        leaves = tree_leaves((args, kwargs or {}))
        inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        bad = [(tensor, kind) for tensor in inputs if (kind := is_bad(tensor))]  # before: it may work in place
        snapshots = [t.clone() if schema_of(func).is_mutable and _is_small(t) else t for t in inputs]
        output = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and (kind := is_bad(tensor)):
                origins = self._origins_of(func, kind, bad, snapshots, leaves, tensor)
                self._mark(tensor, origins)
        return output

    def _origins_of(
        self, func: Any, kind: str, bad: list[tuple[Any, str]], inputs: list[Any], leaves: list[Any], made: torch.Tensor
    ) -> list[NonFiniteOrigin]:
        """Say which origins a bad result goes back to: those of what went in, or this operation."""
        inherited = [origin for tensor, _ in bad for origin in self._origins.get(address_of(tensor), [])]
        unexplained = [tensor for tensor, _ in bad if address_of(tensor) not in self._origins]
        has_nan = any(k == "NaN" for _, k in bad)
        if bad and (kind == "inf" or has_nan or any(not b.on_purpose for b in inherited)):
            if inherited and not unexplained:
                return list(dict.fromkeys(inherited))
            return [*inherited, self._origin(func, kind, inputs, made, on_purpose=True)]
        written = not inputs or any(isinstance(v, float) and not math.isfinite(v) for v in leaves)
        name = func.overloadpacket.__name__
        meant = name.startswith(_UNSET) or (kind == "inf" and written)
        return [self._origin(func, kind, inputs, made, on_purpose=meant)]

    def _origin(self, func: Any, kind: str, inputs: list[Any], made: torch.Tensor, on_purpose: bool) -> NonFiniteOrigin:
        position = _first_bad(made)
        values = tuple(value_at(tensor, position, made.shape) for tensor in inputs[:3])
        return NonFiniteOrigin(
            func.overloadpacket.__name__.strip("_"), self._place(), line_now(), kind, on_purpose, values,
            tuple(made.shape), str(made.dtype).removeprefix("torch."), position, value_at(made, position, made.shape),
        )  # fmt: skip

    def _mark(self, tensor: torch.Tensor, origins: list[NonFiniteOrigin]) -> None:
        self._origins[address_of(tensor)] = origins[:20]
        self._alive.append(tensor)


def is_bad(tensor: torch.Tensor) -> str:
    """Say "NaN" or "inf" if a tensor holds one, otherwise nothing."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0 or tensor.is_meta:
        return ""
    try:
        values = floats_of(tensor)
        if bool(torch.isfinite(values).all()):
            return ""
        return "NaN" if bool(torch.isnan(values).any()) else "inf"
    except (RuntimeError, NotImplementedError):
        return ""


def value_at(tensor: torch.Tensor, position: tuple[int, ...], shape: Any) -> str:
    """Return the value that met at this position of a result; the range of the tensor where no one value did."""
    try:
        fits = tensor.dim() == 0 or torch.broadcast_shapes(tensor.shape, shape) == torch.Size(shape)
        if fits and tensor.layout is torch.strided:
            value = tensor.detach().expand(shape)[position]
            return f"{value.item():.4g}" if not value.is_complex() else str(value.item())
    except (RuntimeError, IndexError, TypeError):
        pass
    values = floats_of(tensor)
    if values.numel() == 0:
        return f"an empty tensor {tuple(tensor.shape)}"
    return f"values from {float(values.min()):.4g} to {float(values.max()):.4g} {tuple(tensor.shape)}"


def _first_bad(tensor: torch.Tensor) -> tuple[int, ...]:
    if tensor.layout is not torch.strided or tensor.dim() == 0:
        return ()
    found = (~torch.isfinite(tensor.detach())).nonzero()
    return tuple(int(i) for i in found[0]) if len(found) else ()


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and tensor.numel() < 10_000_000
