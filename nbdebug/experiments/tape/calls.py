"""What a recorder has to know about one call of a torch function: what it modifies, draws, and runs under."""

from __future__ import annotations

from types import FrameType
from typing import Any

import torch

from nbdebug.core.torch_compat import write_count
from nbdebug.experiments.tape.ops import tensors_of

__all__ = ["Exchange", "autocast_of", "is_in_torch", "modified_by", "random_state", "version_of"]


class Exchange(torch.autograd.Function):
    """Other values in the place of a tensor's own that still lead back to its graph, and save nothing for it.

    A program that differentiates what was exchanged, as a gradient penalty does, fails on a tensor without history.
    """

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        """Return the other values."""
        return new.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradient to both."""
        return gradients[0], gradients[0]


def is_in_torch(frame: FrameType | None) -> bool:
    """Whether torch's own code asks, as distributions do to validate their arguments; it only raises."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("nbdebug."):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("torch.")


def modified_by(name: str, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """List the tensors that a call is going to modify in place, as its name or its arguments say."""
    found = tensors_of(kwargs.get("out"))
    in_place = (name.endswith("_") and not name.endswith("__")) or name == "__setitem__" or kwargs.get("inplace")
    in_place = in_place and name != "requires_grad_"  # its values stay, and so does what leads back to it
    first = args[0] if args else kwargs.get("input")
    return [*found, first] if in_place and isinstance(first, torch.Tensor) else found


def version_of(tensor: torch.Tensor) -> int:
    """Return how often a tensor was modified in place; inference tensors do not count."""
    return 0 if tensor.is_inference() else write_count(tensor)


def random_state(kwargs: Any) -> tuple[torch.Generator, torch.Tensor]:
    """Return the generator that a call draws from, if it draws, and its state."""
    generator = kwargs.get("generator")
    used = generator if isinstance(generator, torch.Generator) else torch.default_generator
    return used, used.get_state()


def autocast_of(operands: list[torch.Tensor]) -> tuple[str, torch.dtype] | None:
    """Return the device and dtype of the autocast that is in force for these operands."""
    device = operands[0].device.type if operands else "cpu"
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return None
    return device, torch.get_autocast_dtype(device)
