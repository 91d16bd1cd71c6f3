"""A fingerprint of everything of the user's: if two of them are equal, nothing was changed.

It is written apart from `nbdebug.sandbox.state_snapshot`, so that neither hides a mistake of the other.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import signal
import sys
import tempfile
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import psutil
import torch
from torch import nn
from torch.utils.data import DataLoader

Facts = dict[str, Any]


@dataclass
class Fingerprint:
    """Named facts, and the objects they are about, kept alive so that no identity is used again."""

    facts: Facts
    kept: list[Any] = field(default_factory=list)


def fingerprint(*live: Any) -> Fingerprint:
    """Take the fingerprint of these objects and of everything global."""
    printed = Fingerprint(dict(_global_facts()))
    for path, part in _walk(live):
        printed.kept.append(part)
        printed.facts.update({f"{path} {name}": value for name, value in _facts_of(part)})
    return printed


def difference(before: Fingerprint, after: Fingerprint) -> list[str]:
    """Name every fact that is another now."""
    lines = []
    for name in {**before.facts, **after.facts}:
        old, new = before.facts.get(name, "(absent)"), after.facts.get(name, "(absent)")
        if old != new:
            lines.append(f"{name}: {_short(old)} -> {_short(new)}")
    return lines


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."


# --- what is reached ------------------------------------------------------------------------------------------------


def _walk(live: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [(f"live[{index}]", part) for index, part in enumerate(live)]
    while stack:
        path, part = stack.pop()
        plain = isinstance(part, (str, bytes, int, float, complex, types.ModuleType, type(None), type))
        if plain and not (isinstance(part, type) and _is_ours(part.__module__)):
            continue
        if id(part) in seen or len(path) > 400:
            continue
        seen.add(id(part))
        yield path, part
        stack.extend((f"{path}{step}", inner) for step, inner in _inside(part))


def _inside(part: Any) -> list[tuple[str, Any]]:
    if isinstance(part, torch.Tensor):
        return [(".grad", part.grad)] if part.is_leaf and part.grad is not None else []
    if isinstance(part, dict):
        pairs = [
            (f"[{key if isinstance(key, (str, int)) else index}]", v) for index, (key, v) in enumerate(part.items())
        ]
        return [*pairs, *((f".key[{index}]", key) for index, key in enumerate(part))]
    if isinstance(part, (list, tuple, set, frozenset)):
        return [(f"[{index}]", item) for index, item in enumerate(part)]
    if isinstance(part, types.FunctionType):
        return _inside_function(part)
    if isinstance(part, types.MethodType):
        return [(".self", part.__self__)]
    if isinstance(part, partial):
        return [(".func", part.func), (".args", part.args), (".keywords", part.keywords)]
    if isinstance(part, weakref.ref):
        return [(".target", part())]
    if isinstance(part, type):
        return [(f".{name}", v) for name, v in vars(part).items() if not name.startswith("__")]
    held = getattr(part, "__dict__", None)
    if not isinstance(held, dict) or _is_foreign(part):
        return []
    return [(f".{name}", value) for name, value in held.items()] + [(".class", type(part))]


def _inside_function(function: types.FunctionType) -> list[tuple[str, Any]]:
    if not _is_ours(function.__module__):
        return []
    parts: list[tuple[str, Any]] = [(".defaults", function.__defaults__)]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            parts.append((f".closure.{name}", cell.cell_contents))
        except ValueError:
            continue
    names = function.__code__.co_names
    return parts + [(f".global.{n}", function.__globals__[n]) for n in names if n in function.__globals__]


def _is_ours(module: str | None) -> bool:
    return (module or "").startswith(("tests.", "__main__"))


def _is_foreign(part: Any) -> bool:
    """Whether an object belongs to a library whose inside is none of the user's business: threads, queues, loggers."""
    top = type(part).__module__.split(".")[0]
    return not (top in ("torch", "tests", "__main__", "collections") or isinstance(part, nn.Module))


# --- what is written down of each -----------------------------------------------------------------------------------


def _facts_of(part: Any) -> Iterator[tuple[str, Any]]:
    yield "identity", id(part)
    for kinds, facts in _KINDS:
        if isinstance(part, kinds):
            yield from facts(part)
            break
    held = getattr(part, "__dict__", None)
    if isinstance(held, dict) and not isinstance(part, (type, types.FunctionType)) and not _is_foreign(part):
        yield "class", id(type(part))
        yield "attributes", list(held)
        yield "plain attributes", {n: v for n, v in held.items() if isinstance(v, (int, float, str, bool, type(None)))}
        yield "attribute identities", {n: id(v) for n, v in held.items() if not isinstance(v, (int, float, str))}


def _tensor(tensor: torch.Tensor) -> Iterator[tuple[str, Any]]:
    yield "requires_grad", tensor.requires_grad
    after = getattr(tensor, "_post_accumulate_grad_hooks", None)
    yield "hooks", (list(tensor._backward_hooks or {}), list(after or {}))
    if isinstance(tensor, (nn.UninitializedParameter, nn.UninitializedBuffer)):
        yield "lazy", type(tensor).__name__
        return
    yield "version", None if tensor.is_inference() else tensor._version
    yield "layout", (tuple(tensor.shape), str(tensor.dtype), str(tensor.device), str(tensor.layout))
    yield "grad is None", tensor.grad is None if tensor.is_leaf else None
    yield "graph", (tensor.is_leaf, type(tensor.grad_fn).__name__)
    if tensor.layout is torch.strided and not tensor.is_meta:
        yield "data_ptr", tensor.data_ptr()
        yield "resizable", tensor.untyped_storage().resizable()
        yield "bytes", _digest(tensor)
    elif tensor.layout is torch.sparse_coo:
        yield "bytes", (_digest(tensor._indices()), _digest(tensor._values()))


def _digest(tensor: torch.Tensor) -> str:
    """Hash the bits: so NaN equals NaN, and -0 differs from 0."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # Of a copy: to look at memory with NumPy says for good that it may not be resized.
    return hashlib.sha1(flat.view(torch.uint8).clone().numpy().tobytes()).hexdigest() if flat.numel() else "empty"


def _array(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    yield "bytes", hashlib.sha1(np.ascontiguousarray(array).tobytes()).hexdigest() if array.dtype != object else None
    yield "layout", (array.shape, str(array.dtype), array.ctypes.data)


def _mapping(mapping: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    yield "items", [(id(key) if not isinstance(key, (str, int)) else key, _ref(v)) for key, v in mapping.items()]


def _sequence(items: Any) -> Iterator[tuple[str, Any]]:
    yield "items", [_ref(item) for item in items]


def _ref(value: Any) -> Any:
    return (type(value).__name__, value) if isinstance(value, (int, float, str, bool, type(None))) else id(value)


def _loader(loader: DataLoader[Any]) -> Iterator[tuple[str, Any]]:
    iterator = loader._iterator
    yield "iterator", id(iterator) if iterator is not None else None
    if iterator is not None:
        counters = ("_num_yielded", "_send_idx", "_rcvd_idx", "_tasks_outstanding", "_base_seed")
        yield "iterator position", {name: getattr(iterator, name, None) for name in counters}
        yield "workers", [worker.pid for worker in getattr(iterator, "_workers", [])]


def _class(kind: type) -> Iterator[tuple[str, Any]]:
    yield "class attributes", {n: _ref(v) for n, v in vars(kind).items() if not n.startswith("__")}


def _module(module: nn.Module) -> Iterator[tuple[str, Any]]:
    yield "training", module.training
    hooks = [name for name in vars(module) if "hooks" in name and isinstance(vars(module)[name], dict)]
    yield "hooks", {name: [(key, id(hook)) for key, hook in vars(module)[name].items()] for name in hooks}


def _file(file: Any) -> Iterator[tuple[str, Any]]:
    yield "file", (file.closed, None if file.closed else file.tell())


_Describe = Callable[[Any], Iterator[tuple[str, Any]]]
_KINDS: list[tuple[Any, _Describe]] = [
    (torch.Tensor, _tensor),
    (np.ndarray, _array),
    (dict, _mapping),
    ((list, tuple, set, frozenset), _sequence),
    (torch.Generator, lambda g: iter([("state", _digest(g.get_state()))])),
    (np.random.Generator, lambda g: iter([("state", repr(g.bit_generator.state))])),
    (np.random.RandomState, lambda g: iter([("state", repr(g.get_state()))])),
    (random.Random, lambda g: iter([("state", hash(g.getstate()))])),
    (DataLoader, _loader),
    (nn.Module, _module),
    (type, _class),
    (io.IOBase, _file),
    (types.GeneratorType, lambda g: iter([("position", g.gi_frame.f_lasti if g.gi_frame else "ended")])),
    (type(threading.Lock()), lambda lock: iter([("locked", lock.locked())])),
]


# --- what is global -------------------------------------------------------------------------------------------------


def _global_facts() -> Iterator[tuple[str, Any]]:
    yield from _random_facts()
    yield from _torch_facts()
    yield "SIGINT handler", signal.getsignal(signal.SIGINT)
    yield "threads", sorted(f"{t.name}:{t.ident}" for t in threading.enumerate())
    yield "child processes", sorted(child.pid for child in psutil.Process().children(recursive=True))
    yield "temporary files", sorted(os.listdir(tempfile.gettempdir()))
    yield "warning filters", [repr(f) for f in warnings.filters]
    yield "numpy errors", np.geterr()
    yield "environment", hash(tuple(sorted(os.environ.items())))
    yield "hooks of Python", (id(sys.excepthook), id(sys.displayhook), id(sys.stdout), id(sys.stderr), sys.gettrace())
    widgets = sys.modules.get("ipywidgets.widgets.widget")
    yield "widgets", sorted(getattr(widgets, "_instances", {})) if widgets else []


def _random_facts() -> Iterator[tuple[str, Any]]:
    yield "torch generator", _digest(torch.get_rng_state())
    yield "numpy generator", repr(np.random.get_state())
    yield "python generator", hash(random.getstate())


def _torch_facts() -> Iterator[tuple[str, Any]]:
    cudnn = torch.backends.cudnn
    yield "grad mode", (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    yield "default dtype", torch.get_default_dtype()
    yield "default device", torch.get_default_device()
    yield (
        "deterministic",
        (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
    )
    yield "cudnn", (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32)
    yield "anomaly", (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    yield "torch threads", (torch.get_num_threads(), torch.get_float32_matmul_precision())
    yield (
        "autocast",
        (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()),
    )
    yield "function modes", (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack())
    global_hooks = torch.nn.modules.module
    yield (
        "global hooks",
        (
            len(global_hooks._global_forward_hooks),
            len(global_hooks._global_forward_pre_hooks),
            torch.is_warn_always_enabled(),
        ),
    )
