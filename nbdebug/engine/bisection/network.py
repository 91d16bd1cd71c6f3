"""The ingredients of the model: architecture, initial weights, dropout, mode and precision, and how each crosses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.core.text import figure, plural
from nbdebug.core.torch_compat import Dropout
from nbdebug.engine.bisection.alike import Alike, same_values
from nbdebug.engine.bisection.ingredient import Ingredient, between

__all__ = ["ARCHITECTURE", "DROPOUT", "MODE", "PRECISION", "WEIGHTS", "differing", "parts_of_model", "put_model"]

ARCHITECTURE, WEIGHTS, DROPOUT, MODE, PRECISION = (
    "architecture", "initial weights", "dropout", "train/eval mode", "precision"
)  # fmt: skip
MOST_NAMED = 3
SAME_SCALE = 0.2  # relative: two random draws of one distribution come nearer to each other


def differing(good: nn.Module, bad: nn.Module) -> Iterator[Ingredient]:
    """Yield what differs between two models."""
    if not same_structure(good, bad):
        yield between(ARCHITECTURE, good, bad, texts=_structures(good, bad))
    fitting, total = _fitting(good, bad), len(good.state_dict())
    other = [name for name in fitting if not same_values(good.state_dict()[name], bad.state_dict()[name])]
    if other:
        note = "" if len(fitting) == total else f"{len(fitting)} of {total} tensors have the same name and shape"
        yield between(WEIGHTS, None, None, texts=_weights_texts(good, bad, other), note=note)
    drops = [_dropouts(model) for model in (good, bad)]
    shared = [name for name in drops[0] if name in drops[1] and drops[0][name] != drops[1][name]]
    if shared:
        said = [", ".join(f"{name}: {figure(values[name])}" for name in shared[:4]) for values in drops]
        yield between(DROPOUT, None, None, texts=(said[0], said[1]))
    modes = [{name: module.training for name, module in model.named_modules()} for model in (good, bad)]
    moved = [name for name in modes[0] if name in modes[1] and modes[0][name] != modes[1][name]]
    if moved:
        said = [f"{moved[0] or 'model'} in {'training' if mode[moved[0]] else 'eval'} mode" for mode in modes]
        yield between(MODE, None, None, texts=(said[0], said[1]))
    if (kinds := (dtype_of(good), dtype_of(bad)))[0] != kinds[1] and None not in kinds:
        yield between(PRECISION, None, None, texts=(str(kinds[0]), str(kinds[1])))


def parts_of_model(good: nn.Module, bad: nn.Module, path: str = "") -> Iterator[Ingredient]:
    """Yield the smallest child modules of the same name that differ; nothing where the models share no frame."""
    mine, theirs = dict(good.named_children()), dict(bad.named_children())
    if mine.keys() != theirs.keys() or not mine or not _same_shell(good, bad):
        if path:
            yield between(f"{ARCHITECTURE}: {path}", good, bad, part_of=ARCHITECTURE)
        return
    for name in mine:
        if not same_structure(mine[name], theirs[name]):
            yield from parts_of_model(mine[name], theirs[name], f"{path}.{name}" if path else name)


def put_model(models: dict[str, nn.Module], side: Any, taken: frozenset[str]) -> nn.Module:
    """Return the model mixed of two copies, each part from the side that is asked for."""
    base = side(ARCHITECTURE)
    model, other = models[base], models["bad" if base == "good" else "good"]
    for part in taken:
        if part.startswith(f"{ARCHITECTURE}: ") and base == "bad":
            parent, _, name = part.removeprefix(f"{ARCHITECTURE}: ").rpartition(".")
            setattr(model.get_submodule(parent), name, models["good"].get_submodule(f"{parent}.{name}".lstrip(".")))
    for key, put in ((WEIGHTS, _put_weights), (DROPOUT, _put_dropouts), (MODE, _put_modes)):
        if side(key) != base:
            put(model, other)
    wanted = dtype_of(models[side(PRECISION)])
    if wanted is not None and dtype_of(model) != wanted:
        model.to(wanted)
    return model


def same_structure(one: nn.Module, other: nn.Module) -> bool:
    """Whether two models are built alike, whatever their weights are."""
    ours, theirs = dict(one.named_modules()), dict(other.named_modules())
    if list(ours) != list(theirs) or not all(_same_shell(ours[name], theirs[name]) for name in ours):
        return False
    shapes = [{name: _shape(tensor) for name, tensor in model.state_dict().items()} for model in (one, other)]
    return shapes[0] == shapes[1]


def _same_shell(one: nn.Module, other: nn.Module) -> bool:
    """Whether two modules are the same but for what is inside of them: class, code, settings."""
    alike = Alike([(one, other)])
    if not alike.same_kind(one, other):
        return False
    plain = [_settings(module) for module in (one, other)]
    return plain[0].keys() == plain[1].keys() and all(alike(plain[0][name], plain[1][name]) for name in plain[0])


def _settings(module: nn.Module) -> dict[str, Any]:
    held = {name: value for name, value in vars(module).items() if not name.startswith("_") and name != "training"}
    drops = (DROPOUT, "p") if isinstance(module, Dropout) else (DROPOUT,)
    return {name: v for name, v in held.items() if not (name in drops and isinstance(v, (int, float)))}


def _shape(tensor: Any) -> tuple[int, ...]:
    return () if is_lazy(tensor) else tuple(tensor.shape)


def _fitting(good: nn.Module, bad: nn.Module) -> list[str]:
    """Name the weights and buffers that both have in the same shape."""
    ours, theirs = good.state_dict(), bad.state_dict()
    return [
        n for n, t in ours.items() if isinstance(t, torch.Tensor) and n in theirs and _shape(t) == _shape(theirs[n])
    ]


@torch.no_grad()
def _put_weights(model: nn.Module, other: nn.Module) -> None:
    ours, theirs = model.state_dict(), other.state_dict()
    for name in _fitting(model, other):
        if not is_lazy(ours[name]):
            ours[name].copy_(theirs[name])


def _put_dropouts(model: nn.Module, other: nn.Module) -> None:
    values, modules = _dropouts(other), dict(model.named_modules())
    for place in _dropouts(model):
        if place in values:
            path, _, name = place.rpartition(".") if not place.endswith(".p") else (place[:-2], "", "p")
            setattr(modules[path], name, values[place])


def _dropouts(model: nn.Module) -> dict[str, float]:
    """Return each rate of dropout by its module and attribute."""
    found: dict[str, float] = {}
    for path, module in model.named_modules():
        for name in ("p",) if isinstance(module, Dropout) else (DROPOUT,):
            value = getattr(module, name, None)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found[f"{path}.{name}"] = float(value)
    return found


def _put_modes(model: nn.Module, other: nn.Module) -> None:
    modes = {name: module.training for name, module in other.named_modules()}
    for name, module in model.named_modules():
        module.training = modes.get(name, module.training)


def dtype_of(model: nn.Module) -> torch.dtype | None:
    """Return the precision of the weights."""
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), None)


def is_other_draw(good: nn.Module, bad: nn.Module) -> bool:
    """Whether the weights differ as two random draws of one distribution do, so that any order of them is as good."""
    ours, theirs = dict(good.named_parameters()), dict(bad.named_parameters())
    pairs = [(p, theirs[n]) for n, p in ours.items() if n in theirs and p.dim() > 1 and p.shape == theirs[n].shape]
    return bool(pairs) and all(_same_scale(a, b) and not same_values(a, b) for a, b in pairs)


def _same_scale(one: torch.Tensor, other: torch.Tensor) -> bool:
    ours, theirs = (float(part.detach().double().std()) for part in (one, other))
    noise = 3 / max(one.numel(), 2) ** 0.5
    return bool(abs(ours - theirs) <= (SAME_SCALE + noise) * max(ours, theirs, 1e-12))


def _weights_texts(good: nn.Module, bad: nn.Module, names: list[str]) -> tuple[str, str]:
    """Return the scale of the weights that differ most, or that they are another draw of the same scale."""
    ours, theirs = good.state_dict(), bad.state_dict()
    scales = {n: tuple(float(t.double().std()) for t in (ours[n], theirs[n])) for n in names if ours[n].numel() > 1}
    if not scales:
        return "other values", "other values"
    farthest = max(scales, key=lambda n: abs(scales[n][0] - scales[n][1]) / max(*scales[n], 1e-12))
    if is_other_draw(good, bad):
        return "random", "another random draw of the same scale"
    a, b = scales[farthest]
    return f"{farthest}: std {figure(a)}", f"{farthest}: std {figure(b)}"


def _structures(good: nn.Module, bad: nn.Module) -> tuple[str, str]:
    """Return the child modules that differ, or the sizes where the models have no frame in common."""
    parts = list(parts_of_model(good, bad))
    if not parts:
        ours, theirs = _size(good), _size(bad)
        return ours, theirs if ours != theirs else f"{theirs}, with other code or settings"
    paths = [part.name.removeprefix(f"{ARCHITECTURE}: ") for part in parts]
    pairs = zip(paths, parts, strict=True)
    texts = [(f"{path}: {part.good}", f"{path}: {part.bad}") for path, part in pairs][:MOST_NAMED]
    return "; ".join(ours for ours, _ in texts), "; ".join(theirs for _, theirs in texts)


def _size(model: nn.Module) -> str:
    count = sum(p.numel() for p in model.parameters() if not is_lazy(p))
    layers = sum(not list(module.children()) for module in model.modules())
    return f"{type(model).__name__}, {plural(layers, 'layer')}, {count:,} parameters"
