"""Noise whose scale is learned, as in Bayesian layers and noisy networks, told from noise that was left on."""

from __future__ import annotations

from collections.abc import Callable

from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.taint import Taint

__all__ = ["is_noise_learned"]

_PRODUCTS = ("mul", "mul_", "rmul", "div", "addcmul", "einsum", "matmul", "outer", "linear", "bmm")


def is_noise_learned(recording: Recording, number: int) -> bool:
    """Whether some parameters affect a value only through products with random draws, and so learn their scale."""
    everything = _parameters(recording, number, lambda op: False)
    return bool(everything - _parameters(recording, number, lambda op: _scales_noise(recording, op)))


def _scales_noise(recording: Recording, op: Op) -> bool:
    """Whether an op multiplies draws that nothing learned has touched yet."""
    return op.name in _PRODUCTS and any(
        recording.values[n].taint & Taint.RANDOM and not recording.values[n].taint & Taint.PARAMETER for n in op.inputs
    )


def _parameters(recording: Recording, number: int, skips: Callable[[Op], bool]) -> set[int]:
    """Return the parameters that a value is computed from, but for those behind the ops that are left out."""
    found, stack, seen = set[int](), [number], {number}
    while stack:
        value = recording.values[stack.pop()]
        if value.producer < 0 and value.taint & Taint.PARAMETER:
            found.add(value.number)
        op = recording.producer(value.number)
        for inner in op.inputs if op is not None and not skips(op) else ():
            if inner not in seen:
                seen.add(inner)
                stack.append(inner)
    return found
