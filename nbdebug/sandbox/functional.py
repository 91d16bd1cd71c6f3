"""The stand-in for a model that cannot be copied: its own forward, run with clones of its tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import own_buffers, own_modules, without_torch_function
from nbdebug.sandbox.state_snapshot import StateSnapshot

__all__ = ["FunctionalModel"]


class _Unregistered:
    """Holds a module without making it a submodule, because its own tensors must never be trained."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model


class FunctionalModel(nn.Module):
    """A stand-in that owns clones of a model's tensors and runs the model's own forward with them.

    The clones keep their names, held by empty modules in the places of the live ones. Those are never called, so a
    tap on them sees nothing, and none is ever put on a module of the user's.
    """

    def __init__(self, live: nn.Module) -> None:
        super().__init__()
        self._live = _Unregistered(live)
        self._pairs: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        self._met: dict[int, Any] = {}  # the clones of tied tensors are tied
        for name, parameter in live.named_parameters(remove_duplicate=False):
            sandbox = self._met.get(id(parameter), nn.Parameter(parameter.detach().clone(), parameter.requires_grad))
            self._hold(name, parameter, sandbox).register_parameter(name.rpartition(".")[2], sandbox)
        for name, buffer in live.named_buffers(remove_duplicate=False):
            clone = self._met.get(id(buffer), buffer.detach().clone())
            self._hold(name, buffer, clone).register_buffer(name.rpartition(".")[2], clone)
        self.train(live.training)

    def _hold(self, name: str, live: torch.Tensor, clone: torch.Tensor) -> nn.Module:
        self._pairs.append((name, live, clone))
        self._met[id(live)] = clone
        holder: nn.Module = self
        for step in name.split(".")[:-1]:
            if step not in own_modules(holder):
                holder.add_module(step, nn.Module())
            holder = holder.get_submodule(step)
        return holder

    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Pair every live tensor with its clone."""
        return [(live, clone) for _, live, clone in self._pairs]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the user's forward with the clones in place of its tensors, and restore everything else after."""
        model = self._live.model
        tensors = {name: self._now(name) for name, _, _ in self._pairs}
        with without_torch_function():  # or a watch for uses of live tensors would see the snapshot read them
            snapshot = StateSnapshot(model)
        try:
            if self.training != model.training:
                for module in model.modules():
                    module.training = self.training
            output = torch.func.functional_call(model, tensors, args, kwargs)
            self._keep(tensors)
            return output
        finally:
            with without_torch_function():
                snapshot.restore()

    def _now(self, name: str) -> torch.Tensor:
        holder, _, last = name.rpartition(".")
        tensor: torch.Tensor = getattr(self.get_submodule(holder), last)
        return tensor

    def _keep(self, tensors: dict[str, torch.Tensor]) -> None:
        """Keep the buffers that the forward exchanged for new ones; functional_call hands them back."""
        for name, tensor in tensors.items():
            holder, _, last = name.rpartition(".")
            buffers = own_buffers(self.get_submodule(holder))
            if last in buffers and buffers[last] is not tensor:
                buffers[last] = tensor.detach()
