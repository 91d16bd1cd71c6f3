"""Short trainings of two real processes under watch, ill and healthy, all in one torchrun."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from nbdebug.evidence.recording import Recording
from nbdebug.watch.saving import load, save
from tests.setup.distributed.torchrun import torchrun

__all__ = ["on_two_ranks", "play", "scene"]

Train = Callable[[], dict[str, Any]]
SCENES: dict[str, Train] = {}


def on_two_ranks(train: Train) -> Train:
    """Let a training run on two processes of its own; calling it gives what rank 0 recorded there."""
    SCENES[train.__name__] = train

    @wraps(train)
    def recorded() -> dict[str, Any]:
        return {"recording": scene(train.__name__)}

    return recorded


def scene(name: str) -> Recording:
    """Return what rank 0 recorded of one of the trainings; all that are known are run when the first is asked for."""
    importlib.import_module("tests.setup.distributed.healthy")
    return load(_folder(tuple(sorted({train.__module__ for train in SCENES.values()}))) / f"{name}.npz")


@cache
def _folder(modules: tuple[str, ...]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="nbdebug-ranks-"))
    lines = (
        "from tests.setup.distributed.scenes import play",
        f"play({str(folder)!r}, {modules!r})",
        "tell(done=True)",
    )
    torchrun(folder, "\n".join(lines))
    return folder


def play(folder: str, modules: tuple[str, ...]) -> None:
    """Run the trainings of these modules on this process, one after the other, each from the same seed."""
    for module in modules:
        importlib.import_module(module)
    for name, train in SCENES.items():
        torch.manual_seed(0)
        recording = train()["recording"]
        if dist.get_rank() == 0:
            save(recording, Path(folder) / f"{name}.npz")
        dist.barrier()
