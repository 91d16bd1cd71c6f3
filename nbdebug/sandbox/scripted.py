"""Scripted and traced models: copied so that no graph leads back, and wrapped so that hooks can be hung on them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import apply_to_state

__all__ = ["ScriptShell", "copied_script"]


def copied_script(module: nn.Module) -> nn.Module:
    """Copy a scripted module; with gradients on, its copy would hang on the original by a graph of clones."""
    with torch.no_grad():
        sandbox = copy.deepcopy(module)
    for live, made in zip(module.parameters(), sandbox.parameters(), strict=True):
        made.requires_grad_(live.requires_grad)
    return sandbox


class ScriptShell(nn.Module):
    """A plain module around a scripted one, because those take no hooks; names and tensors are the inner one's.

    Experiments see its inputs and outputs, and nothing inside, since compiled code calls no hooks.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.__dict__["_inner"] = inner  # not as a submodule, or all names would get a prefix
        self.training = inner.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the scripted model."""
        return self._inner(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Look for what is not here inside."""
        return getattr(self.__dict__["_inner"], name)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        """Return the inner model's parameters."""
        yield from self._inner.named_parameters(*args, **kwargs)

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, torch.Tensor]]:
        """Return the inner model's buffers."""
        yield from self._inner.named_buffers(*args, **kwargs)

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """Return the inner model's children."""
        yield from self._inner.named_children()

    def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[Any]:
        """Return the shell in the place of the inner model, and the modules inside."""
        yield prefix, self
        for name, module in self._inner.named_modules(remove_duplicate=remove_duplicate):
            if name:
                yield f"{prefix}.{name}" if prefix else name, module

    def train(self, mode: bool = True) -> ScriptShell:
        """Put shell and inner model into a mode."""
        self.training = mode
        self._inner.train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the inner model's state."""
        return self._inner.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load a state into the inner model."""
        return self._inner.load_state_dict(*args, **kwargs)

    def _apply(self, fn: Any, recurse: bool = True) -> ScriptShell:
        apply_to_state(self._inner, fn)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptShell:
        sandbox = ScriptShell(copied_script(self._inner))
        for live, made in zip(self.parameters(), sandbox.parameters(), strict=True):
            memo[id(live)] = made
        return sandbox
