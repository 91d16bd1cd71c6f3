"""Are pictures smooth the way they are read, or smoother if they were read in another way?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["ImageLayout", "layout_of"]


@dataclass(frozen=True)
class ImageLayout:
    """How smooth pictures are along each of their axes, and whether another reading of the same values is smoother.

    `smooth` has for each axis (channels, height, width) the mean difference of neighbors relative to that of places
    chosen at random along the axis (1 means no order at all, NaN too short to say), and `ordered` the share of pictures
    in which neighbors are nearer. `other` names the best other reading; `gain` is its roughness relative to that of
    the reading in use, `wins` the share of pictures in which it is smoother, and `sides` the larger of the gains along
    width and height alone.
    """

    shape: tuple[int, int, int]
    pictures: int
    smooth: tuple[float, float, float]
    ordered: tuple[float, float, float]
    other: str = ""
    gain: float = 1.0
    wins: float = 0.0
    sides: float = 1.0


LARGEST = 512 * 512 * 4  # values of a picture; larger ones are not looked at
PICTURES = 64


def layout_of(pictures: torch.Tensor) -> ImageLayout | None:
    """Measure pictures of the shape samples × channels × height × width; None where there are too few."""
    pictures = pictures[:PICTURES].detach().double().cpu()
    if len(pictures) < 8 or pictures[0].numel() > LARGEST or not bool(torch.isfinite(pictures).all()):
        return None
    varied = pictures.flatten(1).std(1) > 0
    pictures = pictures[varied]
    if len(pictures) < 8:
        return None
    ratios = [_along(pictures, axis) for axis in (1, 2, 3)]
    smooth = [float(r.mean()) for r in ratios]
    ordered = [float((r < 1).double().mean()) for r in ratios]
    other, gain, wins, sides = _best_other(pictures)
    channels, height, width = pictures.shape[1:]
    return ImageLayout(
        (channels, height, width),
        len(pictures),
        (smooth[0], smooth[1], smooth[2]),
        (ordered[0], ordered[1], ordered[2]),
        other,
        gain,
        wins,
        sides,
    )


def _along(pictures: torch.Tensor, axis: int) -> torch.Tensor:
    """Return for each picture the difference of neighbors relative to that of any two places along one axis."""
    length = pictures.shape[axis]
    if length < 4:
        return torch.full((len(pictures),), float("nan"), dtype=torch.float64)
    near = pictures.diff(dim=axis).abs().flatten(1).mean(1)
    shifts = range(1, length)
    far = torch.stack(
        [
            (pictures - pictures.roll(shift, axis)).abs().flatten(1).mean(1)
            for shift in list(shifts)[:: max(1, length // 8)]
        ]
    ).mean(0)
    return near / far.clamp(min=1e-12)


def _roughness(pictures: torch.Tensor) -> torch.Tensor:
    """Return for each picture the mean difference of neighbors along width and along height."""
    return torch.stack([pictures.diff(dim=axis).abs().flatten(1).mean(1) for axis in (3, 2)])


def _best_other(pictures: torch.Tensor) -> tuple[str, float, float, float]:
    """Compare the reading in use with the other ways in which the same memory could be read."""
    channels, height, width = pictures.shape[1:]
    if height < 4 or width < 4:
        return "", 1.0, 0.0, 1.0
    now, best = _roughness(pictures), ("", 1.0, 0.0, 1.0)
    for name, other in _readings(pictures, channels, height, width):
        then = _roughness(other)
        gain, wins = float(then.sum() / now.sum().clamp(min=1e-12)), float((then.sum(0) < now.sum(0)).double().mean())
        sides = float((then.sum(1) / now.sum(1).clamp(min=1e-12)).max())
        best = min(best, (name, gain, wins, sides), key=lambda item: item[1])
    return best


def _readings(pictures: torch.Tensor, channels: int, height: int, width: int) -> list[tuple[str, torch.Tensor]]:
    count = len(pictures)
    found = []
    if 2 <= channels <= 16:
        last = pictures.reshape(count, height, width, channels).permute(0, 3, 1, 2)
        found.append(("height × width × channels", last))
    if height != width:
        turned = pictures.reshape(count, channels, width, height)
        if _repeats_at(pictures, height):
            found.append(("width and height swapped", turned))
        if 2 <= channels <= 16:
            last = pictures.reshape(count, width, height, channels).permute(0, 3, 1, 2)
            found.append(("width × height × channels", last))
    return found


def _repeats_at(pictures: torch.Tensor, period: int) -> bool:
    """Whether values so far apart in memory are alike, and those half as far are not: the sign of a row's length."""
    flat = pictures.flatten(2)
    if flat.shape[2] <= 2 * period or period < 6:
        return False

    def apart(lag: int) -> float:
        return float((flat[..., lag:] - flat[..., :-lag]).abs().mean())

    return apart(period) < 0.8 * apart(period // 2)
