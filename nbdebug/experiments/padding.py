"""Inputs that are filled up to one length: with which value, at which end, and how many places are data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.setup import Batch

__all__ = ["Padded", "padded_inputs"]

SHORTEST = 4  # places, below which a run of equal values means nothing


@dataclass(frozen=True)
class Padded:
    """One input whose sequences are filled up: with what, at which end, and how many real places each row has."""

    name: str
    value: float
    at_end: bool
    lengths: torch.Tensor
    longest: int

    @property
    def is_data(self) -> torch.Tensor:
        """For each sample, which places are data."""
        places, lengths = torch.arange(self.longest), self.lengths.cpu()[:, None]
        return places < lengths if self.at_end else places >= self.longest - lengths

    @property
    def share(self) -> float:
        """The part of all places that is padding."""
        return 1 - float(self.lengths.double().mean()) / self.longest

    def cut(self, batch: Batch, row: int, lengths_too: bool = False) -> Batch:
        """Return one sample without its padding, in every input that has the same places; and with its true length."""
        length = int(self.lengths[row])
        keep = slice(0, length) if self.at_end else slice(self.longest - length, self.longest)

        def shorter(_: str, tensor: torch.Tensor) -> torch.Tensor:
            if lengths_too and tensor.dim() == 1 and not tensor.is_floating_point():
                return tensor.clamp(max=length)
            if tensor.dim() < 2 or tensor.shape[1] != self.longest:
                return tensor
            tensor = tensor[:, keep]
            square = tensor.dim() == 3 and tensor.shape[2] == self.longest and not tensor.is_floating_point()
            return tensor[:, :, keep] if square else tensor

        return batch.select(torch.tensor([row])).map_inputs(shorter)


def padded_inputs(batch: Batch) -> Iterator[Padded]:
    """Yield the inputs whose rows end (or begin) with runs of one value, of different lengths."""
    for name, tensor in batch.inputs.items():
        if tensor.layout is not torch.strided or tensor.is_complex() or tensor.dtype == torch.bool:
            continue
        sequences = tensor.dim() == 2 and not tensor.is_floating_point()
        frames = tensor.dim() == 3 and tensor.is_floating_point()
        if tensor.shape[0] != batch.size or batch.size < 4 or not (sequences or frames) or tensor.shape[1] < SHORTEST:
            continue
        for at_end in (True, False):
            found = _ends(name, tensor, at_end)
            if found is not None:
                yield found
                break


def _ends(name: str, tensor: torch.Tensor, at_end: bool) -> Padded | None:
    """Look for runs of one value at the same end of many rows, of different lengths."""
    ordered = tensor.flip(1) if at_end else tensor
    value = float(ordered[:, 0].flatten().mode().values) if tensor.dim() == 2 else 0.0
    filled = ordered == value if tensor.dim() == 2 else (ordered == 0).all(2)
    runs = filled.long().cumprod(1).sum(1)
    longest = tensor.shape[1]
    if int((runs > 1).sum()) < max(2, 0.3 * len(runs)) or len(runs.unique()) < 3 or int((runs == longest).sum()) > 0:
        return None
    inside = filled.sum(1) - runs
    if float(inside.sum()) > 0.5 * float(runs.sum()):
        return None  # a value that occurs everywhere fills nothing up
    return Padded(name, value, at_end, longest - runs, longest)
