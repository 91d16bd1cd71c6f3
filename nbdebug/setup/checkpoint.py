"""Read a checkpoint safely: tensors by name, and never a pickle that could run code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from nbdebug.errors import BadInput, NotApplicable

__all__ = ["checked_checkpoint", "checkpoint_tensors", "describe_checkpoint"]

_WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "weights", "params", "net", "network", "ema")


def checked_checkpoint(checkpoint: Any) -> Any:
    """Refuse what is neither a file nor a state dict, before anything runs."""
    expected, do = "a path to a checkpoint, or a state dict", "pass checkpoint='model.pt', or omit it"
    if isinstance(checkpoint, (str, Path)) and not Path(checkpoint).is_file():
        raise BadInput(f"there is no such file: {checkpoint}", where="checkpoint", expected=expected, do=do)
    if checkpoint is None or isinstance(checkpoint, (str, Path, Mapping)):
        return checkpoint
    raise BadInput(f"it is a {type(checkpoint).__name__}", where="checkpoint", expected=expected, do=do)


def describe_checkpoint(checkpoint: Any) -> str:
    """Name a checkpoint as a person would."""
    return Path(checkpoint).name if isinstance(checkpoint, (str, Path)) else "the state dict given"


def checkpoint_tensors(checkpoint: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of a checkpoint by name, from a path or from a state dict."""
    found = _tensors(_loaded(checkpoint) if isinstance(checkpoint, (str, Path)) else checkpoint)
    if not found:
        raise NotApplicable(f"{describe_checkpoint(checkpoint)} contains no named tensors")
    return found


def _loaded(path: str | Path) -> Any:
    if str(path).endswith(".safetensors"):
        try:
            from safetensors.torch import load_file
        except ImportError:
            raise NotApplicable("the package safetensors is required to read this checkpoint") from None
        return load_file(str(path))
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else ""
        raise NotApplicable(
            f"{Path(path).name} cannot be read as plain tensors ({type(error).__name__}: {first}); pass the state dict"
        ) from None


def _tensors(value: Any, depth: int = 0) -> dict[str, torch.Tensor]:
    """Find the mapping of names to tensors, which is often wrapped with the optimizer and the epoch."""
    if not isinstance(value, Mapping) or depth > 2:
        return {}
    plain = {str(key): item for key, item in value.items() if isinstance(item, torch.Tensor)}
    inner = [value[name] for name in _WRAPPERS if name in value and isinstance(value[name], Mapping)]
    wrapped = max((_tensors(item, depth + 1) for item in inner), key=len, default={})
    return wrapped if len(wrapped) > len(plain) else plain
