"""What kind of data a tensor holds, told from its shape, its type and how its values lie side by side."""

from __future__ import annotations

import math
from typing import Literal

import torch

__all__ = ["Kind", "folded_side", "is_padding_mask", "kind_of", "time_axis"]

Kind = Literal["image", "mask", "table", "tokens", "series", "value"]
FEW = 16  # channels or features at the most beside a time axis
PICTURE = 12  # pixels of a picture's shorter side at the least
AUDIO = 256  # steps from which one row of numbers may be a sound
SMOOTH = 0.6  # neighbors differ by less than this share of what two places differ by
TOKENS = 8  # positions from which rows of integers are taken for sequences
ID_NAMES = ("ids", "token", "text", "sentence", "word")


def kind_of(name: str, values: torch.Tensor, *, is_target: bool = False) -> Kind:
    """Return the kind of a tensor whose first dimension counts the samples."""
    integral = not values.is_floating_point() and not values.is_complex()
    if values.is_complex() or values.numel() == 0 or values.dim() > 5:
        return "value"
    if values.dim() >= 4:
        return "image"
    if values.dim() == 3:
        if integral and values.dtype != torch.uint8:
            return "mask" if min(values.shape[1:]) >= 4 else "value"
        return "image" if values.dtype == torch.uint8 or _is_picture(values) else "series"
    if values.dim() == 2 and values.shape[1] > 1:
        if integral and values.dtype != torch.bool:
            named = any(word in name.lower() for word in ID_NAMES)
            return "tokens" if named or values.shape[1] >= TOKENS or is_target else "table"
        if folded_side(values):
            return "image"
        long = values.shape[1] >= AUDIO and _roughness(values, 1) < SMOOTH
        return "series" if long and not integral else "table"
    return "table"


def folded_side(values: torch.Tensor) -> int:
    """Return the side of the square pictures that rows of numbers are when they are folded; 0 where they are none."""
    side = math.isqrt(int(values.shape[1]))
    if values.dim() != 2 or side < 6 or side * side != values.shape[1] or not values.is_floating_point():
        return 0
    square = values.reshape(len(values), side, side)
    return side if max(_roughness(square, 1), _roughness(square, 2)) < 0.9 else 0


def time_axis(values: torch.Tensor) -> int:
    """Return the axis of time of samples × a × b: the long one beside few channels, else the smoother one."""
    if values.dim() == 2:
        return 1
    first, last = int(values.shape[1]), int(values.shape[2])
    if (first <= FEW) != (last <= FEW):
        return 2 if first <= FEW else 1
    return 1 if _roughness(values, 1) <= _roughness(values, 2) else 2


def is_padding_mask(name: str, values: torch.Tensor, tokens: torch.Tensor) -> bool:
    """Whether this input says which places of the tokens are real."""
    if values.shape != tokens.shape or "mask" not in name.lower():
        return False
    return bool(((values == 0) | (values == 1)).all())


def _is_picture(values: torch.Tensor) -> bool:
    """Whether samples × a × b are pictures in gray: large and not too long, and smooth in both directions."""
    short, long = sorted((int(values.shape[1]), int(values.shape[2])))
    if short < 6 or long > 8 * short:
        return False
    if short < PICTURE and short != long:
        return False
    return max(_roughness(values, 1), _roughness(values, 2)) < 0.9


def _roughness(values: torch.Tensor, axis: int) -> float:
    """Return the difference of neighbors along an axis relative to that of any two places on it."""
    if values.shape[axis] < 4:
        return 1.0
    some = torch.nan_to_num(values[:64].detach().float().cpu())
    order = torch.randperm(some.shape[axis], generator=torch.Generator().manual_seed(0))
    near = float(some.diff(dim=axis).abs().mean())
    far = float(some.index_select(axis, order).diff(dim=axis).abs().mean())
    return near / far if far > 0 else 1.0
