"""Make the copy that experiments run on: one deepcopy for all, with a way round everything that cannot be copied."""

from __future__ import annotations

import copy
import types
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch
from torch import nn

from nbdebug.errors import TwinRefused
from nbdebug.subject.holdings import copy_generator, generators_in, human_bytes

__all__ = ["Copied", "copy_together", "refuse_too_large"]


@dataclass
class Copied:
    """The copies, how they were made, and what a reader of the report has to know about that."""

    parts: tuple[Any, ...]
    how: str
    notes: list[str] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)


def refuse_too_large(model: nn.Module, optimizer: Any) -> None:
    """Refuse with numbers when a copy with its gradients does not fit into the memory that is free."""
    tensors = [t for t in (*model.parameters(), *model.buffers()) if not _is_lazy(t)]
    held = sum(t.numel() * t.element_size() for t in tensors)
    state = sum(t.numel() * t.element_size() for t in _state_tensors(optimizer))
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad and not _is_lazy(p))
    needed = held + trained + max(state, 2 * trained)  # the copy, its gradients, and what Adam keeps
    free = _free_bytes(tensors[0].device if tensors else torch.device("cpu"))
    if needed > free:
        raise TwinRefused(
            f"The model holds {human_bytes(held)}; a copy with gradients and optimizer state needs about "
            f"{human_bytes(needed)}, and {human_bytes(free)} are free.\n"
            "  Expected: room for one copy, because experiments never run on your own model.\n"
            "  What to do: use a smaller configuration of the same model (fewer layers, narrower), or a machine with "
            "more memory.\n  Nothing of yours was changed."
        )


def copy_together(*originals: Any) -> Copied:
    """Copy these objects in one go, so that an optimizer's copy holds the copied model's parameters."""
    model = originals[0]
    memo, notes = _memo_for(originals)
    for attempt in range(2):
        trial = dict(memo)
        try:
            parts = copy.deepcopy(originals, trial)
            return Copied(tuple(parts), "deepcopy" if attempt == 0 else "deepcopy, some parts shared", notes, trial)
        except Exception as error:
            if attempt == 0:
                notes.extend(_share_uncopyable(originals, memo))
                continue
            return _functional(model, originals, error, notes)
    raise AssertionError("unreachable")


def _memo_for(originals: tuple[Any, ...]) -> tuple[dict[int, Any], list[str]]:
    """Prepare copies of what deepcopy cannot do itself: generators, and tensors that a graph computed."""
    memo: dict[int, Any] = {id(g): copy_generator(g) for g in generators_in(*originals)}
    for module in _modules_in(originals):
        for value in vars(module).values():
            for tensor in _plain_tensors(value):
                if not tensor.is_leaf:
                    memo[id(tensor)] = tensor.detach().clone()
    return memo, []


def _share_uncopyable(originals: tuple[Any, ...], memo: dict[int, Any]) -> list[str]:
    """Find the attributes that refuse to be copied (locks, files, code) and let the twin share them."""
    shared = []
    for module in _modules_in(originals):
        for name, value in vars(module).items():
            if name in {"_parameters", "_buffers", "_modules"} or id(value) in memo:
                continue
            try:
                copy.deepcopy(value, dict(memo))
            except Exception:
                memo[id(value)] = value
                shared.append(f"{type(module).__name__}.{name}")
    if not shared:
        return []
    return [f"The copy shares with your model what cannot be copied: {', '.join(shared[:5])}."]


def _functional(model: nn.Module, originals: tuple[Any, ...], error: Exception, notes: list[str]) -> Copied:
    """Fall back to clones of the tensors that are swapped in for each call of the user's own forward."""
    try:
        stand_in = FunctionalModel(model)
    except Exception as second:
        raise TwinRefused(
            f"No copy of the model can be made: deepcopy says {type(error).__name__}: {error}; and cloning its tensors "
            f"says {type(second).__name__}: {second}.\n  Expected: a model that copy.deepcopy can copy.\n"
            "  What to do: keep locks, files and open connections out of the module's attributes.\n"
            "  Nothing of yours was changed."
        ) from error
    notes.append(
        f"The model cannot be copied ({type(error).__name__}: {error}); its forward runs with cloned tensors, so plain "
        "attributes that the forward changes are changed."
    )
    memo = {id(live): clone for live, clone in stand_in.pairs()}
    rest = [copy.deepcopy(part, memo) if part is not None else None for part in originals[1:]]
    return Copied((stand_in, *rest), "functional_call", notes, memo)


class _Unregistered:
    """Holds a module without making it a submodule, because its own tensors must never be trained."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model


class FunctionalModel(nn.Module):
    """A stand-in that owns clones of a model's tensors and runs the model's own forward with them."""

    def __init__(self, live: nn.Module) -> None:
        super().__init__()
        self._live = _Unregistered(live)
        self._names: dict[str, str] = {}
        for name, parameter in live.named_parameters():
            own = self._own_name(name)
            self.register_parameter(own, nn.Parameter(parameter.detach().clone(), parameter.requires_grad))
        for name, buffer in live.named_buffers():
            self.register_buffer(self._own_name(name), buffer.detach().clone())
        self.train(live.training)

    def _own_name(self, name: str) -> str:
        own = name.replace(".", "__")
        self._names[own] = name
        return own

    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Pair every live tensor with its clone."""
        live = {**dict(self._live.model.named_parameters()), **dict(self._live.model.named_buffers())}
        return [(live[name], getattr(self, own)) for own, name in self._names.items()]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the user's forward with the clones in place of its tensors, and its own mode put back after."""
        tensors = {name: getattr(self, own) for own, name in self._names.items()}
        modes = [(module, module.training) for module in self._live.model.modules()]
        try:
            if not self.training:
                for module, _ in modes:
                    module.training = False
            return torch.func.functional_call(self._live.model, tensors, args, kwargs)
        finally:
            for module, mode in modes:
                module.training = mode


def _modules_in(originals: tuple[Any, ...]) -> list[nn.Module]:
    return [module for part in originals if isinstance(part, nn.Module) for module in part.modules()]


def _plain_tensors(value: Any, depth: int = 0) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if depth > 3 or isinstance(value, (str, bytes, types.ModuleType)):
        return []
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in items for tensor in _plain_tensors(item, depth + 1)]


def _state_tensors(optimizer: Any) -> list[torch.Tensor]:
    state = getattr(optimizer, "state", None) or {}
    return [t for entry in state.values() for t in _plain_tensors(entry)]


def _is_lazy(tensor: Any) -> bool:
    return isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer))


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
