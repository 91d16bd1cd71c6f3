"""Values of a recorded run that a mask has set to zero at every word and not at the padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from nbdebug.experiments.padding import Padded
from nbdebug.experiments.tape.ops import Recording

__all__ = ["MaskedValues", "masked_values"]

ADDS = ("add", "add_", "radd", "where", "cat", "concat")
MOST = 0.5  # of the padding, at which values must not be zero


@dataclass(frozen=True)
class MaskedValues:
    """Values with one vector per token that are zero at all words and not at padding, and who made them.

    `words` and `padding` are the shares of both that are not zero.
    """

    padded: str
    op: str
    module: str
    words: float
    padding: float


def masked_values(recording: Recording, padded: list[Padded]) -> MaskedValues | None:
    """Return the first values that are zero at every word of a padded input."""
    for entry in padded:
        for number, value in enumerate(recording.values):
            if value.tensor is None or value.producer < 0 or not value.tensor.is_floating_point():
                continue
            shares = _shares(value.tensor.detach(), entry)
            if shares is not None and shares[0] == 0 and shares[1] > MOST and not _is_half(recording, number, entry):
                op = recording.ops[value.producer]
                return MaskedValues(entry.name, op.name, op.module, *shares)
    return None


def _shares(values: torch.Tensor, entry: Padded) -> tuple[float, float] | None:
    """Return at how many of the words and of the padding values are not zero; None for others than of one sequence."""
    placed = _placed(values, entry)
    if placed is None:
        return None
    data = entry.is_data.to(values.device)
    filled = placed[~data]
    if bool((filled == filled[:1]).all()):  # one vector for all that is filled up
        return None
    used = (placed != 0).any(2)
    return float(used[data].double().mean()), float(used[~data].double().mean())


def _placed(values: torch.Tensor, entry: Padded) -> torch.Tensor | None:
    """Return values as (samples, positions, features), if they have these dimensions."""
    data = entry.is_data
    if values.dim() == 3 and values.shape[:2] == data.T.shape and values.shape[0] != values.shape[1]:
        values = values.transpose(0, 1)
    fits = values.dim() == 3 and values.shape[:2] == data.shape and values.shape[2] > 1 and not bool(data.all())
    return values if fits else None


def _is_half(recording: Recording, number: int, entry: Padded) -> bool:
    """Whether a value is added to another one that a mask sets to zero where it is not, as branches of a choice are.

    Embeddings that are zero at padding by their `padding_idx` are no branch.
    """
    for op in recording.ops:
        if number not in op.inputs or op.name not in ADDS:
            continue
        masked = [n for n in op.inputs if n != number and (by := recording.producer(n)) and by.name != "embedding"]
        others = [t.detach() for n in masked if (t := recording.values[n].tensor) is not None]
        placed = [p for t in others if (p := _placed(t, entry)) is not None]
        if op.name == "where" or any(not bool(p[~entry.is_data.to(p.device)].any()) for p in placed):
            return True
    return False
