"""Make the copy that experiments run on: one deepcopy for all, with a way round everything that cannot be copied."""

from __future__ import annotations

import copy
import types
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.errors import UNCHANGED, ModelTooLarge, SandboxRefused
from nbdebug.sandbox.functional import FunctionalModel
from nbdebug.sandbox.late_state import LateState, is_plain_state
from nbdebug.sandbox.module_copies import ATOMS, copy_modules
from nbdebug.sandbox.scripted import ScriptShell, copied_script
from nbdebug.setup.careful_copy import careful_copy
from nbdebug.setup.distributed.alone import groups_in, lone_group
from nbdebug.setup.object_graph import copy_generator, data_in, generators_in, human_bytes

__all__ = ["Copied", "copy_together", "refuse_too_large"]

_CONTAINERS = (OrderedDict, dict, set, list, tuple)
TRIFLE = 32 * 2**20  # bytes that are there for sure; asking how many are free takes longer than copying them


@dataclass
class Copied:
    """The copies, how they were made, and what a reader of the report has to know about that."""

    parts: tuple[Any, ...]
    how: str
    notes: list[str] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)


def refuse_too_large(model: nn.Module, optimizer: Any) -> None:
    """Refuse with numbers when a copy with its gradients does not fit into the memory that is free."""
    tensors = [t for t in (*model.parameters(), *model.buffers()) if not is_lazy(t)]
    held = sum(t.numel() * t.element_size() for t in tensors)
    state = sum(t.numel() * t.element_size() for t in _state_tensors(optimizer))
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad and not is_lazy(p))
    needed = held + trained + max(state, 2 * trained)  # the copy, its gradients, and what Adam keeps
    if needed < TRIFLE:
        return
    free = _free_bytes(tensors[0].device if tensors else torch.device("cpu"))
    if needed > free:
        raise ModelTooLarge(
            f"model: it holds {human_bytes(held)}; a copy with gradients and optimizer state needs about "
            f"{human_bytes(needed)}, and {human_bytes(free)} is free.\n"
            "  Expected: enough memory for one copy, because experiments never run on your own model.\n"
            "  What to do: use a smaller configuration of the same model (fewer layers, narrower), or a machine with "
            f"more memory.\n  {UNCHANGED}"
        )


def copy_together(*originals: Any) -> Copied:
    """Copy these objects in one go, so that an optimizer's copy holds the copied model's parameters."""
    memo: dict[int, Any] = _memo_for(originals)
    notes: list[str] = []
    try:
        trial = dict(memo)
        copy_modules(_modules_in(originals), trial)
        parts = copy.deepcopy(originals, trial)
        _link_state(originals, trial)
        return Copied(tuple(parts), "deepcopy", notes, trial)
    except Exception:
        trial = dict(memo)
    try:
        parts = careful_copy(originals, trial, notes)
        _link_state(originals, trial)
        return Copied(tuple(parts), "deepcopy, with stand-ins", _tidy(notes, originals), trial)
    except Exception as error:
        return _functional(originals, error, _memo_for(originals), [])


def _memo_for(originals: tuple[Any, ...]) -> dict[int, Any]:
    """Prepare copies of what deepcopy cannot do itself: generators, graph-made tensors, scripted modules."""
    memo: dict[int, Any] = {id(g): copy_generator(g) for g in generators_in(*originals)}
    for module in _modules_in(originals):
        for value in vars(module).values():
            if type(value) in ATOMS or (type(value) in _CONTAINERS and not value):
                continue
            for tensor in _plain_tensors(value):
                if not tensor.is_leaf:
                    memo[id(tensor)] = tensor.detach().clone()
        if isinstance(module, torch.jit.ScriptModule) and id(module) not in memo:
            _memo_scripted(module, memo)
            if module is originals[0]:
                memo[id(module)] = ScriptShell(memo[id(module)])
    for group in groups_in(_modules_in(originals)):
        memo[id(group)] = lone_group()
    memo.update(_memo_for_state(originals[1] if len(originals) > 1 else None))
    for part in originals[1:]:
        memo.update({id(data): data for data in data_in(part)})  # an experiment never reads through a step's own loader
    return memo


def _memo_for_state(optimizer: Any) -> dict[int, Any]:
    """Let the state of an optimizer be copied late; where it holds more than tensors of its own, clone those now."""
    own = _own_state(optimizer)
    is_all_own = len(_state_tensors(optimizer)) == len(own)  # and none of them is shared
    if isinstance(optimizer, torch.optim.Optimizer) and is_all_own and is_plain_state(optimizer):
        return {id(optimizer.state): LateState(optimizer.state)}
    return {id(tensor): tensor.clone() for tensor in own}  # deepcopy takes ten times as long for a small one


def _link_state(originals: tuple[Any, ...], memo: dict[int, Any]) -> None:
    """Tell a state that is copied late which copies its parameters have."""
    late = memo.get(id(getattr(originals[1], "state", None))) if len(originals) > 1 else None
    if isinstance(late, LateState):
        late.link({id(parameter): memo[id(parameter)] for parameter in originals[1].state})


def _memo_scripted(module: nn.Module, memo: dict[int, Any]) -> None:
    """Copy a scripted module first: it copies in C++, and an optimizer would not find its parameters in the memo."""
    sandbox = copied_script(module)
    for (_, live), (_, made) in zip(module.named_modules(), sandbox.named_modules(), strict=True):
        memo[id(live)] = made
    live_tensors = (*module.named_parameters(), *module.named_buffers())
    copied_tensors = (*sandbox.named_parameters(), *sandbox.named_buffers())
    for (_, live), (_, made) in zip(live_tensors, copied_tensors, strict=True):
        made.detach_().requires_grad_(live.requires_grad)  # the clone is in the graph of the live one
        memo[id(live)] = made


def _tidy(notes: list[str], originals: tuple[Any, ...]) -> list[str]:
    """Name the model where a path begins with its place among the originals."""
    return [note.replace("[0]", type(originals[0]).__name__, 1) for note in notes]


def _functional(originals: tuple[Any, ...], error: Exception, memo: dict[int, Any], notes: list[str]) -> Copied:
    """Fall back to clones of the tensors that are swapped in for each call of the user's own forward."""
    model = originals[0]
    try:
        stand_in = FunctionalModel(model)
        memo |= {id(live): clone for live, clone in stand_in.pairs()} | {id(model): stand_in}
        rest = [careful_copy(part, memo, notes) if part is not None else None for part in originals[1:]]
        _link_state(originals, memo)
    except Exception as second:
        raise SandboxRefused(
            f"model: it cannot be copied: deepcopy raises {type(error).__name__}: {error}; and cloning its tensors "
            f"raises {type(second).__name__}: {second}.\n  Expected: a model that copy.deepcopy can copy.\n"
            "  What to do: remove locks, files and open connections from the module's attributes.\n"
            f"  {UNCHANGED}"
        ) from error
    notes.append(
        f"The model cannot be copied ({type(error).__name__}: {error}); its own forward runs with cloned tensors, so "
        "the experiments see its inputs and outputs and not the modules inside."
    )
    return Copied((stand_in, *rest), "functional_call", notes, memo)


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


def _own_state(optimizer: Any) -> list[torch.Tensor]:
    """Return the state tensors of an optimizer of torch's kind that have all of their memory to themselves."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return []
    found: dict[int, list[torch.Tensor]] = {}
    for tensor in {id(t): t for t in _state_tensors(optimizer)}.values():
        if type(tensor) is torch.Tensor and tensor.layout is torch.strided and not tensor.is_meta:
            found.setdefault(tensor.untyped_storage().data_ptr(), []).append(tensor)
    alone = [tensors[0] for tensors in found.values() if len(tensors) == 1]
    return [t for t in alone if not (t.requires_grad or t.is_inference() or vars(t)) and _fills_its_storage(t)]


def _fills_its_storage(tensor: torch.Tensor) -> bool:
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
