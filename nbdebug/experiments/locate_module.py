"""Find the first module at which something holds, by recording what enters and leaves every module.

A fault shows first either in what a module gives (then the module is at fault) or in what a module receives (then the
code before it is, in the forward of the module around it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.experiments.capture import tapped
from nbdebug.experiments.kept_state import from_one_state
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.sample_dataset import seed_all

__all__ = ["SEED", "Event", "Place", "Recording", "aligned", "first_place", "jittered", "place_at", "record"]

SEED = 20_230
Values = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Event:
    """One module beginning or ending, with copies of the tensors that it received or gave."""

    path: str
    module: str
    entering: bool
    inside: str  # the module whose forward made the call
    tensors: Values

    @property
    def key(self) -> tuple[str, bool, int]:
        """What has to agree for two recordings to be comparable at this point."""
        return self.path, self.entering, len(self.tensors)


@dataclass
class Recording:
    """Everything that entered and left a module in one pass, in order, and what the pass gave in the end."""

    events: list[Event] = field(default_factory=list)
    outputs: Values = ()
    predicted: torch.Tensor | None = None


@dataclass(frozen=True)
class Place:
    """A module, and whether the fault lies in the code before it rather than in itself."""

    path: str
    module: str
    before: bool = False
    inside: str = ""

    def __str__(self) -> str:
        """Return it as a phrase for a message."""
        if not self.before:
            return f"at `{self.path}` ({self.module})"
        inside = f"`{self.inside}`" if self.inside else "your loss"
        return f"in the code of {inside} before `{self.path}` ({self.module})"


def record(sandbox: Sandbox, batch: Batch, *, whole: bool = False, seed: int = SEED, inner: bool = True) -> Recording:
    """Run the model (with its loss, if `whole`) on a batch and keep a copy of all that flows.

    Without `inner`, only what comes out in the end is kept: enough to see whether there is anything to look for.

    Random numbers and what the model keeps between calls are the same for every recording.
    """
    recording, open_paths = Recording(), list[str]()

    def keep(path: str, module: nn.Module, value: Any, entering: bool) -> None:
        inside = open_paths[-1] if open_paths else ""
        copies = tuple(t.detach().clone() for t in tensors_in(value) if _is_plain(t))
        recording.events.append(Event(path, type(module).__name__, entering, inside, copies))

    def before(path: str, module: nn.Module, inputs: Any) -> None:
        keep(path, module, inputs, True)
        open_paths.append(path)

    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if open_paths:
            open_paths.pop()
        keep(path, module, output, False)

    seed_all(seed)
    taps = tapped(sandbox.model, after=after, before=before) if inner else nullcontext()
    with from_one_state(sandbox.model), taps:
        if whole:
            outcome = sandbox.run(batch)
            output: Any = (outcome.output, outcome.loss)
            predicted = outcome.predicted
        else:
            output = sandbox.forward(batch)
            predicted = main_output(output)
    recording.outputs = tuple(t.detach().clone() for t in tensors_in(output) if _is_plain(t))
    recording.predicted = predicted.detach().clone() if predicted is not None and _is_plain(predicted) else None
    return recording


def aligned(recordings: Sequence[Recording]) -> Iterator[tuple[Event, ...]]:
    """Walk several recordings side by side, as far as they make the same calls."""
    for events in zip(*(recording.events for recording in recordings), strict=False):
        if any(event.key != events[0].key for event in events):
            return
        yield events


def first_place(recordings: Sequence[Recording], holds: Callable[[Values], bool]) -> Place | None:
    """Return the first place where the predicate holds for what the recordings have there, tensor by tensor."""
    for events in aligned(recordings):
        if any(holds(values) for values in zip(*(event.tensors for event in events), strict=True)):
            return place_at(events[0])
    return None


def place_at(event: Event) -> Place:
    """Say where a fault is that shows at this event for the first time."""
    return Place(event.path, event.module, event.entering, event.inside)


@torch.no_grad()
def jittered(model: nn.Module, size: float = 0.01) -> None:
    """Shake every parameter a little, so that what begins at zero on purpose lets influence through."""
    seed_all(SEED)
    for parameter in model.parameters():
        if is_lazy(parameter) or not parameter.is_floating_point():
            continue
        spread = float(parameter.detach().float().std(correction=0)) if parameter.numel() > 1 else 0.0
        parameter.add_(torch.randn_like(parameter) * size * (spread if spread > 1e-6 else 1.0))


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested and not tensor.is_quantized and not tensor.is_meta
