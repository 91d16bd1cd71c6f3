"""In which mode the networks of a training step run."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["NetworkModes"]


class NetworkModes:
    """Whether the networks run in training mode."""

    def __init__(self, networks: dict[str, nn.Module]) -> None:
        self._networks = networks
        self._trained: dict[str, set[bool]] = {name: set() for name in networks}

    def watched(self) -> NetworkModes:
        """Return what watches inside a `with` block."""
        return self

    def __enter__(self) -> None:
        def hook(name: str) -> object:
            return lambda module, args: self._trained[name].add(bool(module.training))

        self._handles = [
            module.register_forward_pre_hook(hook(name))  # type: ignore[arg-type]
            for name, module in self._networks.items()
            if not isinstance(module, torch.jit.ScriptModule)
        ]

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def of(self, name: str) -> tuple[bool, bool]:
        """Return whether a network ran in eval mode only (or stands so, where it never ran), and whether it ran."""
        seen = self._trained[name]
        return (True not in seen) if seen else not self._networks[name].training, bool(seen)
