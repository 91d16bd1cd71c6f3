"""Which dimension of a batch holds the samples, and how to exchange one of them in all inputs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbdebug.errors import NotApplicable
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch, Setup
from nbdebug.setup.user_code import user_code

__all__ = ["Samples", "runnable", "runs", "samples_of", "several_batches"]

FEW = 2  # batches whose drawing is timed
DRAWING = 0.2  # of the time that is left, for drawing the others


@dataclass(frozen=True)
class Samples:
    """A batch with the dimension and the number of its samples; `sure` is whether the loader says so itself."""

    batch: Batch
    axis: int
    count: int
    sure: bool

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether this tensor has the samples' dimension."""
        return tensor.dim() > self.axis and tensor.shape[self.axis] == self.count

    def map(self, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Batch:
        """Change every input that has the samples' dimension, moved to the front and back for the change."""

        def at_front(name: str, tensor: torch.Tensor) -> torch.Tensor:
            if not self.holds(tensor):
                return tensor
            return change(name, tensor.movedim(self.axis, 0).clone()).movedim(0, self.axis)

        return self.batch.map_inputs(at_front)

    def replaced(self, index: int, by: int) -> Batch:
        """Put one sample's values in the place of another's; targets stay."""

        def change(_: str, tensor: torch.Tensor) -> torch.Tensor:
            tensor[index] = tensor[by].clone()
            return tensor

        return self.map(change)

    def distorted(self, index: int) -> Batch:
        """Make one sample large and strange where it is made of real numbers; ids and masks stay as they are."""

        def change(_: str, tensor: torch.Tensor) -> torch.Tensor:
            if tensor.is_floating_point() or tensor.is_complex():
                tensor[index] = tensor[index] * -3 + tensor.abs().mean() + 1
            return tensor

        return self.map(change)

    def head(self, count: int) -> Samples:
        """Return the first so many samples; all of them where they do not come first or cannot be cut."""
        if self.axis != 0 or count >= self.count or self.batch.whole:
            return self
        return replace(self, batch=self.batch.head(count), count=count)

    @property
    def lengths(self) -> set[int]:
        """The lengths of all dimensions that are not the samples'."""
        tensors = self.batch.inputs.values()
        return {n for t in tensors for dim, n in enumerate(t.shape) if dim != self.axis and n > 1}


def runs(run: Callable[[Batch], Any], batch: Batch) -> bool:
    """Whether this batch goes through without an error."""
    with user_code(passing=()), torch.no_grad():
        run(batch)
        return True
    return False


def runnable(samples: Samples, count: int, run: Callable[[Batch], Any]) -> Samples:
    """Return the first so many samples if they run, and all of them where the model wants its own batch size."""
    for chosen in (samples.head(count), samples):
        if runs(run, chosen.batch):
            return chosen
    raise NotApplicable("the model fails on such a batch")


def several_batches(sandbox: Sandbox, most: int) -> list[Batch]:
    """Return some batches: as many as asked, fewer where the time that is left has no room for drawing them."""
    control = sandbox.control
    begun = control.clock()
    few = sandbox.batches(FEW)
    room = control.affordable((control.clock() - begun) / max(len(few), 1), most, part=DRAWING)
    return few if room < most else sandbox.batches(most)


def samples_of(sandbox: Sandbox, batch: Batch | None = None) -> Samples:
    """Say where the samples of the first batch are, or that its rows are no samples."""
    batch = batch if batch is not None else sandbox.batch()
    tensors = [t for t in batch.inputs.values() if t.dim() > 0]
    if not tensors:
        raise NotApplicable("the inputs contain no tensor with a batch dimension")
    if batch.joined_by:
        raise NotApplicable(f"samples are packed along dim 0, and {batch.joined_by[0]} assigns the parts to samples")
    drawn = _drawn_by_loader(sandbox.setup)
    if drawn is not None and batch.size != min(drawn, batch.size) and batch.size % drawn:
        return _time_first(batch, tensors, drawn)
    if drawn is not None:
        return _counted(sandbox.setup, batch, tensors, drawn)
    _refuse_graphs(sandbox, batch)
    target = batch.target if batch.has_target else None
    if isinstance(target, torch.Tensor) and target.dim() > 0 and target.shape[0] != tensors[0].shape[0]:
        first = int(target.shape[0])
        if all(t.dim() > 1 and t.shape[1] == first for t in tensors):
            return Samples(batch, 1, first, False)
    if not isinstance(target, torch.Tensor) or target.dim() < 2 or target.shape[:2] != tensors[0].shape[:2]:
        return Samples(batch, 0, batch.size, True)
    time = _shifted_axis(tensors[0], target)
    if time == 0:
        return Samples(batch, 1, int(tensors[0].shape[1]), True)
    return Samples(batch, 0, batch.size, time == 1)


def _shifted_axis(tensor: torch.Tensor, target: torch.Tensor) -> int | None:
    """Return the dimension along which the target is the next step of the input, which is time then."""
    for axis in (1, 0):
        length = tensor.shape[axis]
        if tensor.shape == target.shape and length > 3:
            same = tensor.narrow(axis, 1, length - 1) == target.narrow(axis, 0, length - 1)
            if float(same.double().mean()) > 0.9:
                return axis
    return None


def _drawn_by_loader(setup: Setup) -> int | None:
    """Return the number of samples that the loader puts into its first batch, where it says so."""
    size = getattr(setup.feed.loader, "batch_size", None)
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        return None
    return min(size, setup.feed.total) if setup.feed.total else size


def _counted(setup: Setup, batch: Batch, tensors: list[torch.Tensor], drawn: int) -> Samples:
    first = [t for t in tensors if t.shape[0] == drawn]
    second = [t for t in tensors if t.dim() > 1 and t.shape[1] == drawn]
    if first and len(second) == len(tensors) and _collates_second(setup):
        return Samples(batch, 1, drawn, True)
    if first:
        return Samples(batch, 0, drawn, True)
    return _time_first(batch, tensors, drawn) if second else Samples(batch, 0, batch.size, False)


def _time_first(batch: Batch, tensors: list[torch.Tensor], drawn: int) -> Samples:
    if all(t.dim() > 1 and t.shape[1] == drawn for t in tensors):
        return Samples(batch, 1, drawn, True)
    raise NotApplicable(
        f"the loader draws {drawn} samples, but the inputs have {batch.size} rows: a row is not a sample"
    )


def _collates_second(setup: Setup) -> bool:
    """Ask the loader's own collate, with two samples, whether it puts them into the second dimension."""
    dataset = setup.feed.dataset
    with user_code(passing=()):
        pair = setup.wrap(setup.feed.collate([dataset[0], dataset[1]]))
        tensors = [t for t in pair.inputs.values() if t.dim() > 1]
        return bool(tensors) and all(t.shape[1] == 2 and t.shape[0] != 2 for t in tensors)
    return False


def _refuse_graphs(sandbox: Sandbox, batch: Batch) -> None:
    """Refuse a batch whose rows are nodes of a graph, because they are meant to talk to each other."""
    inputs, rows = list(batch.inputs.values()), batch.size
    held: list[Any] = [*inputs[1:], *sandbox.model.buffers()]
    held += [value for module in sandbox.model.modules() for value in vars(module).values()]
    for tensor in held:
        if isinstance(tensor, torch.Tensor) and _joins_rows(tensor, rows):
            raise NotApplicable("the rows of the batch are nodes of one graph, so they are not independent samples")


def _joins_rows(tensor: torch.Tensor, rows: int) -> bool:
    if tensor.layout is not torch.strided:
        return True
    if tensor.dim() != 2:
        return False
    edges = tensor.shape[0] == 2 and tensor.dtype == torch.int64 and rows != 2
    return edges or tuple(tensor.shape) == (rows, rows)
