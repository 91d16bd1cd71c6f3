"""What is to be watched: the modules, the parameters and the optimizers, and what of them cannot be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.core.torch_compat import COMPILED_INSIDE, Dropout, RunningNorm, is_compiled, own_modules
from nbdebug.errors import BadInput
from nbdebug.setup.distributed.pieces import has_flat_parameters, is_sharded, kind_of
from nbdebug.setup.module_names import root_name
from nbdebug.setup.user_code import methods_of, names_used

__all__ = ["Target", "target_of"]

# They are never called, or give on what they got.
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
_PLAIN = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
SHARDED = (
    "The model is sharded: layer outputs are those of this rank; norms are put together from the pieces of all ranks, "
    "at the steps that all of them measured. Dead units are not looked for in sharded layers."
)
_WRAPPERS = ("module.", f"{COMPILED_INSIDE}.")


@dataclass
class Target:
    """The user's things, by the names that a recording gives them."""

    name: str
    roots: dict[str, nn.Module]
    layers: list[tuple[str, nn.Module]]
    parameters: list[tuple[str, nn.Parameter]]
    optimizers: dict[str, torch.optim.Optimizer] | None
    unseen: list[str] = field(default_factory=list)
    is_sharded: bool = False  # this process holds only pieces of some parameters

    @property
    def device(self) -> str:
        """The kind of device that the parameters are on."""
        kinds = {p.device.type for _, p in self.parameters}
        return next(iter(kinds)) if len(kinds) == 1 else ", ".join(sorted(kinds)) or "cpu"

    def modules_in_eval_mode(self) -> tuple[str, ...]:
        """The modules that are in eval mode while their model trains."""
        return tuple(
            _path(prefix, path)
            for prefix, root in self.roots.items()
            if root.training
            for path, module in root.named_modules()
            if not module.training
        )

    def modules_that_obey_the_mode(self) -> tuple[str, ...]:
        """The modules that behave differently in the two modes: by their class, their dropout or their own forward."""
        return tuple(
            _layer_path(prefix, path, root)
            for prefix, root in self.roots.items()
            for path, module in root.named_modules()
            if _obeys_mode(module)
        )


def _obeys_mode(module: nn.Module) -> bool:
    rate = getattr(module, "p", None) if isinstance(module, Dropout) else None
    rate = getattr(module, "dropout", rate) if isinstance(module, (nn.RNNBase, nn.MultiheadAttention)) else rate
    if isinstance(rate, (int, float)):
        return rate > 0
    if isinstance(module, RunningNorm):
        return module.track_running_stats
    return any("training" in names_used(method.__code__) for _, method in methods_of(type(module)))


def target_of(model: Any, optimizer: Any, layers: Any) -> Target:
    """Check what was handed over, and name everything that will be looked at."""
    roots = _named(model, nn.Module, "model", "an nn.Module, or several in a list or dict")
    for root in roots.values():
        _refuse(root)
    optimizers = None if optimizer is None else _optimizers(optimizer)
    unseen: list[str] = []
    found = [pair for prefix, root in roots.items() for pair in _layers(prefix, root, unseen)]
    parameters = _parameters(roots)
    optimizers = _belonging(parameters, optimizers, unseen)
    if any(p.device.type != "cpu" for _, p in parameters):
        unseen.append(
            "Times are CPU times without device synchronization; repeated batches on the device are not detected."
        )
    if any(map(is_sharded, roots.values())):
        unseen.append(SHARDED)
    name = ", ".join(kind_of(_unwrapped(root)).__name__ for root in roots.values())
    return Target(name, roots, _chosen(found, layers), parameters, optimizers, unseen, SHARDED in unseen)


def _named(value: Any, kind: type, where: str, expected: str) -> dict[str, Any]:
    """Return one thing or several by name; one alone needs no name."""
    if isinstance(value, kind):
        return {"": value}
    if isinstance(value, Mapping) and not isinstance(value, kind):
        named = {str(name): part for name, part in value.items()}
    elif isinstance(value, Sequence) and not isinstance(value, str):
        named = {str(number): part for number, part in enumerate(value)}
    else:
        named = {"": value}
    wrong = [part for part in named.values() if not isinstance(part, kind)]
    if wrong or not named:
        seen = type(wrong[0]).__name__ if wrong else "nothing"
        hint = ", for example nbdebug.watch(model, optimizer)"
        made = isinstance(wrong[0], type) if wrong else False
        raise BadInput(
            f"got {seen}" + (f" {wrong[0].__name__}, which is a class and not an object" if made else ""),
            where=f"nbdebug.watch({where})",
            expected=expected,
            do=("create one first" if made else _instead(wrong[:1], where)) + hint,
        )
    return named


def _instead(wrong: list[Any], where: str) -> str:
    if wrong and isinstance(wrong[0], nn.Module if where == "optimizer" else torch.optim.Optimizer):
        return "the model comes first, and then its optimizer"
    return "pass the model that you train" if where == "model" else "pass the optimizer that trains the model"


def _optimizers(optimizer: Any) -> dict[str, torch.optim.Optimizer]:
    """Return the optimizers by name; wrappers such as accelerate's are opened."""

    def opened(value: Any) -> Any:
        inner = getattr(value, "optimizer", None)
        is_wrapped = not isinstance(value, torch.optim.Optimizer) or type(value).__name__ == "AcceleratedOptimizer"
        return inner if is_wrapped and isinstance(inner, torch.optim.Optimizer) else value

    if isinstance(optimizer, torch.optim.lr_scheduler.LRScheduler):
        raise BadInput(
            f"got the scheduler {type(optimizer).__name__}",
            where="nbdebug.watch(optimizer)",
            expected="the optimizer itself; its learning rates are recorded anyway",
            do="pass scheduler.optimizer",
        )
    if isinstance(optimizer, Mapping):
        value: Any = {name: opened(part) for name, part in optimizer.items()}
    elif isinstance(optimizer, (list, tuple)):
        value = [opened(part) for part in optimizer]
    else:
        value = opened(optimizer)
    found = _named(value, torch.optim.Optimizer, "optimizer", "a torch.optim.Optimizer, or several in a list or dict")
    return {name or type(part).__name__: part for name, part in found.items()}


def _refuse(root: nn.Module) -> None:
    if isinstance(root, torch.jit.ScriptModule):
        raise BadInput(
            "the model is scripted or traced, and compiled code does not call hooks",
            where="nbdebug.watch(model)",
            expected="a regular nn.Module",
            do="watch the original module, and script it after training",
        )
    if has_flat_parameters(root):
        raise BadInput(
            "the model is wrapped in FullyShardedDataParallel, which hides its parameters in flat ones",
            where="nbdebug.watch(model)",
            expected="a model sharded by torch.distributed.fsdp.fully_shard, by tensor parallelism, or not at all",
            do="shard it with fully_shard(model), which keeps the parameters as they are",
        )


def _belonging(
    parameters: list[tuple[str, nn.Parameter]], optimizers: dict[str, torch.optim.Optimizer] | None, unseen: list[str]
) -> dict[str, torch.optim.Optimizer] | None:
    """Keep the optimizers that hold something of the model; others may train a multiplier beside it."""
    own = {id(p) for _, p in parameters}
    held = {name: [p for g in one.param_groups for p in g["params"]] for name, one in (optimizers or {}).items()}
    strangers = [name for name, tensors in held.items() if not any(id(p) in own for p in tensors)]
    if optimizers is None or not strangers:
        return optimizers
    if len(strangers) == len(optimizers):
        raise BadInput(
            f"the optimizer {strangers[0]} holds {len(held[strangers[0]])} tensors, and none of them is a parameter of "
            "this model",
            where="nbdebug.watch(optimizer)",
            expected="the optimizer that trains this model",
            do="recreate the optimizer after the model: optimizer = torch.optim.Adam(model.parameters())",
        )
    unseen.append(f"Not tracked, because they hold no parameter of the model: {', '.join(strangers)}.")
    return {name: one for name, one in optimizers.items() if name not in strangers}


def _unwrapped(root: nn.Module) -> nn.Module:
    for name in ("module", COMPILED_INSIDE):
        inner = own_modules(root).get(name)
        if isinstance(inner, nn.Module) and len(own_modules(root)) == 1:
            return _unwrapped(inner)
    return root


def _path(prefix: str, path: str) -> str:
    """Name a module or parameter as the user would, without the wrappers around the model."""
    while path.startswith(_WRAPPERS):
        path = path.partition(".")[2]
    return ".".join(part for part in (prefix, path) if part) or "model"


def _layer_path(prefix: str, path: str, root: nn.Module) -> str:
    """Name a module, where the model itself must not be taken for one of its own that is called `model`."""
    return _path(prefix, path) if prefix or path else root_name(_unwrapped(root))


def _parameters(roots: Mapping[str, nn.Module]) -> list[tuple[str, nn.Parameter]]:
    found: dict[int, tuple[str, nn.Parameter]] = {}
    for prefix, root in roots.items():
        for name, parameter in root.named_parameters():
            if not is_lazy(parameter):
                found.setdefault(id(parameter), (_path(prefix, name), parameter))
    return list(found.values())


def _layers(prefix: str, root: nn.Module, unseen: list[str]) -> Iterator[tuple[str, nn.Module]]:
    closed: tuple[str, ...] = ()
    for path, module in root.named_modules():
        if closed and path.startswith(closed):
            continue
        if is_compiled(module):
            what = f"inside {_path(prefix, path)}" if path else "inside the model"
            unseen.append(f"It is compiled: no layer {what} can be recorded, only its output, gradients and weights.")
            closed = (*closed, f"{path}." if path else "")
        if isinstance(module, torch.jit.ScriptModule) or "parametrizations" in path.split("."):
            continue
        if not isinstance(module, (*_CONTAINERS, *_PLAIN)) and (path == "" or path not in ("module", COMPILED_INSIDE)):
            yield _layer_path(prefix, path, root), module


def _chosen(found: list[tuple[str, nn.Module]], patterns: Any) -> list[tuple[str, nn.Module]]:
    """Keep the layers whose names fit; a shared module is kept once."""
    unique = {id(module): (path, module) for path, module in reversed(found)}
    found = list(reversed(unique.values()))
    if patterns is None:
        return found
    if not isinstance(patterns, (str, Sequence, set, frozenset)) or not all(isinstance(p, str) for p in patterns):
        raise BadInput(
            f"layers is {patterns!r}",
            where="nbdebug.watch(layers)",
            expected="a name or a pattern of modules as in model.named_modules(), or a list of these",
            do="layers=['encoder.*', 'head'], or omit it to watch all of them",
        )
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    kept = [(path, module) for path, module in found if any(fnmatchcase(path, pattern) for pattern in wanted)]
    if not kept:
        names = ", ".join(path for path, _ in found[:8])
        raise BadInput(
            f"no layer matches {', '.join(map(repr, wanted))}",
            where="nbdebug.watch(layers)",
            expected=f"names or patterns of modules, such as {names}",
            do="omit `layers` to watch all of them",
        )
    return kept
