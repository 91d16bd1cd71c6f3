"""What the whole model is called among the names of its modules."""

from __future__ import annotations

from torch import nn

__all__ = ["root_name"]


def root_name(root: nn.Module) -> str:
    """Return a name for the model itself that no part of it has: `model`, or else its class.

    Many models hold their main part under the name `model`, and the two must not be taken for each other.
    """
    taken = {path for path, _ in root.named_modules(remove_duplicate=False)}
    name = type(root).__name__ if "model" in taken else "model"
    while name in taken:
        name += "_"
    return name
