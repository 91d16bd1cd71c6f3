"""Modules that are created while a program runs, and which module's method creates each of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import nn

__all__ = ["Created", "created_modules"]

_INIT = nn.Module.__init__.__code__
_DEPTH = 30  # frames


@dataclass(frozen=True)
class Created:
    """A module with the module in whose method it was created; None outside of any."""

    module: nn.Module
    creator: nn.Module | None


@contextmanager
def created_modules() -> Iterator[list[Created]]:
    """Collect the modules that are created inside of the block; none where something else profiles the program."""
    found: list[Created] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is _INIT and isinstance(module := frame.f_locals.get("self"), nn.Module):
            found.append(Created(module, _creator(frame, module)))

    if sys.getprofile() is not None:
        yield found
        return
    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(None)


def _creator(frame: FrameType, module: nn.Module) -> nn.Module | None:
    """Return the first module that calls from a method, which has begun to be one before."""
    caller: FrameType | None = frame.f_back
    for _ in range(_DEPTH):
        if caller is None:
            return None
        owner = caller.f_locals.get("self")
        if isinstance(owner, nn.Module) and owner is not module and caller.f_code.co_name != "__init__":
            return owner
        caller = caller.f_back
    return None
