"""Parameters that a program registers while it runs: of layers that its forward pass makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from nbdebug.experiments.capture import tapped

__all__ = ["Created", "created_parameters"]

Created = dict[
    int, tuple[str, str, torch.Tensor]
]  # by the id of a parameter: the running module, and the new one's class


@contextmanager
def created_parameters(model: nn.Module) -> Iterator[Created]:
    """Collect every parameter that is registered in here; they are kept, so that no id is used twice."""
    found: Created = {}
    running: list[str] = []

    def enter(path: str, module: nn.Module, inputs: Any) -> None:
        running.append(path)

    def leave(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        while running and running.pop() != path:
            continue

    def note(module: nn.Module, name: str, parameter: Any) -> None:
        if isinstance(parameter, torch.Tensor):
            found[id(parameter)] = (running[-1] if running else "", type(module).__name__, parameter)

    handle = register_module_parameter_registration_hook(note)
    try:
        with tapped(model, after=leave, before=enter):
            yield found
    finally:
        handle.remove()
