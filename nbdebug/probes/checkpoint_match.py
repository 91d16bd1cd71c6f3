"""Compare the model's tensors with those of a checkpoint."""

from __future__ import annotations

import math
from collections import Counter

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.evidence import CheckpointMatch, TensorMatch
from nbdebug.registry import probe
from nbdebug.subject import Subject, unwrap
from nbdebug.subject.checkpoint import checkpoint_tensors, describe_checkpoint

__all__ = ["checkpoint_match"]

ALIKE = 0.3  # correlation: training moves weights, but independent ones of this size correlate by less than 0.1
FEWEST = 16  # elements: a correlation of fewer says nothing

Tensors = dict[str, torch.Tensor]


@probe
def checkpoint_match(subject: Subject) -> CheckpointMatch:
    """Compare every tensor of the model with the checkpoint, by name and by value."""
    if subject.checkpoint is None:
        raise NotApplicable("no checkpoint was passed (checkpoint=…)")
    theirs = checkpoint_tensors(subject.checkpoint)
    lazy = (nn.UninitializedParameter, nn.UninitializedBuffer)
    state = unwrap(subject.model).state_dict()
    mine = {name: t for name, t in state.items() if isinstance(t, torch.Tensor) and not isinstance(t, lazy)}
    prefix, lacks = _prefix(mine, theirs)
    keys = {name: _key(name, prefix, lacks) for name in mine}
    matches = tuple(_match(name, tensor, keys[name], theirs) for name, tensor in mine.items())
    taken = {match.key for match in matches if match.state != "absent"}
    unused = tuple(key for key in theirs if key not in taken)
    return CheckpointMatch(describe_checkpoint(subject.checkpoint), matches, prefix, lacks, unused)


def _prefix(mine: Tensors, theirs: Tensors) -> tuple[str, bool]:
    """Find what the names of the checkpoint have in front against the model's, or lack; empty where they agree."""
    if sum(name in theirs for name in mine) * 2 >= min(len(mine), len(theirs)):
        return "", False
    votes: Counter[tuple[str, bool]] = Counter()
    for name, tensor in mine.items():
        for key, other in theirs.items():
            if other.shape != tensor.shape:
                continue
            if key.endswith(f".{name}"):
                votes[key[: -len(name)], False] += 1
            elif name.endswith(f".{key}"):
                votes[name[: -len(key)], True] += 1
    if not votes:
        return "", False
    best, count = votes.most_common(1)[0]
    return best if count > sum(name in theirs for name in mine) else ("", False)


def _key(name: str, prefix: str, lacks: bool) -> str:
    if not lacks:
        return f"{prefix}{name}"
    return name.removeprefix(prefix)


def _match(name: str, tensor: torch.Tensor, key: str, theirs: Tensors) -> TensorMatch:
    other = theirs.get(key)
    count = int(tensor.numel())
    if other is None:
        return TensorMatch(name, key, "absent", math.nan, count)
    if other.shape != tensor.shape:
        return TensorMatch(name, key, "shape", math.nan, count)
    a, b = (t.detach().cpu().double().flatten() for t in (tensor, other))
    if torch.equal(a, b) or torch.equal(a, b.to(tensor.dtype).double()):
        return TensorMatch(name, key, "equal", 1.0, count)
    correlation = _correlation(a, b)
    alike = math.isnan(correlation) or correlation > ALIKE
    return TensorMatch(name, key, "alike" if alike else "other", correlation, count)


def _correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    """Give the correlation of two tensors; nan where one of them is constant or too short."""
    a, b = a - a.mean(), b - b.mean()
    size = float(a.norm() * b.norm())
    if a.numel() < FEWEST or size < 1e-20 or not math.isfinite(size):
        return math.nan
    return float(a @ b) / size
