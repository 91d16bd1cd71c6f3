"""Which dimension of a batch holds the samples, and how to exchange one of them in all inputs at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbdebug.errors import NotApplicable
from nbdebug.experiments.infer_layout import layout_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.batch_layout import BatchLayout
from nbdebug.setup.user_code import user_code

__all__ = ["Samples", "runnable", "runs", "samples_of", "several_batches"]

FEW = 2  # batches whose drawing is timed
DRAWING = 0.2  # of the time that is left, for drawing the others


@dataclass(frozen=True)
class Samples:
    """A batch with the layout of its samples."""

    batch: Batch
    layout: BatchLayout

    @property
    def axis(self) -> int:
        """The dimension of the samples."""
        return self.layout.axis

    @property
    def count(self) -> int:
        """How many samples there are."""
        return self.layout.size

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
        return Samples(self.batch.head(count), replace(self.layout, size=count))

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
    layout = layout_of(sandbox, batch)
    if layout.refused:
        raise NotApplicable(layout.refused)
    return Samples(batch, layout)
