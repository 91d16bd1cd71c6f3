"""What the values of pictures mean: which normalization was applied, so that it can be undone for display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.setup.object_graph import parts_in

__all__ = ["Scaling", "find_scaling"]

Numbers = tuple[float, ...]

# The constants that most pipelines use, by name; pixels are 0 to 1 before them.
KNOWN: tuple[tuple[str, Numbers, Numbers], ...] = (
    ("0.5 and 0.5", (0.5,), (0.5,)),
    ("ImageNet", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ("CIFAR-10", (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)),
    ("CIFAR-10", (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.201)),
    ("CIFAR-100", (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    ("CLIP", (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    ("MNIST", (0.1307,), (0.3081,)),
    ("Fashion-MNIST", (0.286,), (0.353,)),
)
SLACK = 0.02  # of the range from black to white that rounding and interpolation may leave it by
FILLED = 0.6  # of that range that a batch covers at least, if the constants are the right ones
LOOKED_AT = 100_000  # values


@dataclass(frozen=True)
class Scaling:
    """How a value becomes a brightness from 0 to 1: `value * std + mean`, channel by channel."""

    mean: Numbers
    std: Numbers
    says: str

    def to_unit(self, planes: torch.Tensor) -> torch.Tensor:
        """Undo it, for channels × height × width."""
        return (planes * _column(self.std) + _column(self.mean)).clamp(0, 1)


def find_scaling(values: torch.Tensor, dataset: Any = None) -> Scaling:
    """Say what the values of samples × channels × … mean: by the loader's own transforms, else by the values."""
    finite = values[torch.isfinite(values)]
    if not len(finite):
        return Scaling((0.0,), (1.0,), "no finite value")
    low, high = float(finite.min()), float(finite.max())
    channels = int(values.shape[1])
    own = _from_transforms(dataset, channels)
    if own is not None and _fits(values, *own)[0]:
        return Scaling(*own, f"normalization undone: {_pair(*own)}, as in the loader's transforms")
    if low >= -1e-6 and high <= 1 + 1e-6:
        return Scaling((0.0,), (1.0,), f"values from {low:.3g} to {high:.3g}, shown as 0 to 1")
    if low >= 0 and 2 < high <= 255:
        return Scaling((0.0,), (1 / 255,), f"values from {low:.3g} to {high:.3g}, shown as 0 to 255")
    found = _best_known(values, channels, high - low)
    if found is not None:
        name, mean, std = found
        return Scaling(mean, std, f"looks normalized ({name}: {_pair(mean, std)}); undone for display")
    ordered = finite[:: max(1, len(finite) // LOOKED_AT)].sort().values
    dark, light = (float(ordered[round(q * (len(ordered) - 1))]) for q in (0.005, 0.995))
    spread = max(light - dark, 1e-12)
    said = f"values from {low:.3g} to {high:.3g} of unknown range, rescaled for display"
    return Scaling((-dark / spread,), (1 / spread,), said)


def _column(numbers: Numbers) -> torch.Tensor:
    return torch.tensor(numbers).reshape(-1, 1, 1)


def _pair(mean: Numbers, std: Numbers) -> str:
    def written(numbers: Numbers) -> str:
        return ", ".join(f"{number:.4g}" for number in numbers)

    return f"mean {written(mean)}; std {written(std)}"


def _from_transforms(dataset: Any, channels: int) -> tuple[Numbers, Numbers] | None:
    """Find the one transform that holds a mean and a std, whatever library it is from."""
    found: set[tuple[Numbers, Numbers]] = set()
    for part in parts_in(dataset) if dataset is not None else ():
        held = getattr(part, "__dict__", None) or {}
        mean, std = _numbers(held.get("mean"), channels), _numbers(held.get("std"), channels)
        if mean and std and all(s > 0 for s in std):
            found.add((mean, std))
    return found.pop() if len(found) == 1 else None


def _numbers(value: Any, channels: int) -> Numbers | None:
    try:
        flat = tuple(float(number) for number in torch.as_tensor(value).flatten())
    except (TypeError, ValueError, RuntimeError):
        return None
    return flat if len(flat) in (1, channels) else None


def _fits(values: torch.Tensor, mean: Numbers, std: Numbers) -> tuple[bool, float]:
    """Whether undoing this gives 0 to 1, and the share of values that are then whole 255ths, as pixels are."""
    planes = values.flatten(2)[..., None]  # samples × channels × places × 1
    undone = (planes * _column(std) + _column(mean))[torch.isfinite(planes)]
    inside = bool((undone > -SLACK).all() and (undone < 1 + SLACK).all())
    some = undone[:: max(1, len(undone) // LOOKED_AT)] * 255
    return inside, float(((some - some.round()).abs() < 0.02).float().mean())


def _best_known(values: torch.Tensor, channels: int, reach: float) -> tuple[str, Numbers, Numbers] | None:
    """Choose among the usual constants the one that gives back whole pixels, else the one that fills the range."""
    best: tuple[float, str, Numbers, Numbers] | None = None
    for name, mean, std in KNOWN:
        if len(mean) not in (1, channels) or reach * min(std) < FILLED:
            continue
        inside, whole = _fits(values, mean, std)
        score = whole if whole > 0.9 else 0.5 * min(reach * min(std), 1.0)
        if inside and (best is None or score > best[0]):
            best = (score, name, mean, std)
    return best[1:] if best is not None else None
