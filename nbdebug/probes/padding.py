"""What does padding do to the prediction and to the loss?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from nbdebug.errors import NbdebugError, NotApplicable
from nbdebug.evidence import PaddingTrial, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.loss import main_output
from nbdebug.twin import Twin
from nbdebug.twin.kept_state import from_one_state
from nbdebug.twin.loss_box import open_box

__all__ = ["padding"]

BATCHES = 4
TRIED = 8
RUNS = 16  # of a model that is random in eval mode, averaged
SHORTEST = 4  # places, below which a run of equal values means nothing


@dataclass(frozen=True)
class _Padded:
    """One input whose sequences are filled up: with what, at which end, and how many real places each row has."""

    name: str
    value: float
    at_end: bool
    lengths: torch.Tensor
    longest: int

    @property
    def share(self) -> float:
        """The part of all places that is padding."""
        return 1 - float(self.lengths.double().mean()) / self.longest

    def cut(self, batch: Batch, row: int, lengths_too: bool = False) -> Batch:
        """Give one sample without its padding, in every input that has the same places; and with its true length."""
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


@probe
def padding(twin: Twin, trial: TrialRun) -> PaddingTrial:
    """Remove the padding of each sequence and compare the predictions."""
    require_run(trial)
    batches = twin.batches(BATCHES)
    seen = [found for batch in batches for found in _padded_inputs(batch)]
    if not seen or not list(_padded_inputs(batches[0])):
        raise NotApplicable("no input looks like padded sequences")
    here = next(_padded_inputs(batches[0]))
    same = [found for found in seen if found.name == here.name]
    share = sum(found.share for found in same) / len(same)
    count = sum(len(found.lengths) for found in same)
    influence = _influence(twin, batches[0], here)
    in_loss = _in_loss(twin, batches[0], here)
    return PaddingTrial(
        here.name,
        here.value,
        share,
        count,
        here.longest,
        influence.value,
        in_loss,
        at_end=here.at_end,
        noise=influence.noise,
        reason=influence.reason,
    )


def _padded_inputs(batch: Batch) -> Iterator[_Padded]:
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


def _ends(name: str, tensor: torch.Tensor, at_end: bool) -> _Padded | None:
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
    return _Padded(name, value, at_end, longest - runs, longest)


@dataclass(frozen=True)
class _Influence:
    """The median change of a prediction without the padding, and between runs of the identical input."""

    value: float | None = None
    noise: float = 0.0
    reason: str = ""


@torch.no_grad()
def _influence(twin: Twin, batch: Batch, padded: _Padded) -> _Influence:
    """Measure the change of a prediction without the padding, relative to how predictions differ."""
    rows = [r for r in padded.lengths.argsort().tolist() if 0 < int(padded.lengths[r]) < padded.longest]
    changes, noises = list[float](), list[float]()
    with twin.mode(training=False):
        try:
            whole = _mean_of(twin, partial(twin.forward, batch), 1)
            if whole is None or whole.shape[:1] != (batch.size,):
                return _Influence(reason="the model returns no output with one row per sample")
            spread = max(float(whole.std(0).mean()), 1e-12)
            runs = _runs_needed(twin, batch, whole)
            for row in rows[:TRIED]:
                sample = partial(twin.forward, batch.select(torch.tensor([row])))
                alone = _mean_of(twin, sample, runs)
                again = alone if runs == 1 else _mean_of(twin, sample, runs)
                cut = _mean_of(twin, partial(_forward_cut, twin, padded, batch, row), runs)
                changes.append(_difference(alone, cut, padded, row) / spread)
                noises.append(_difference(alone, again, padded, row) / spread)
        except NbdebugError:
            raise
        except Exception as error:
            return _Influence(reason=f"the model fails on shorter sequences ({type(error).__name__})")
    if not changes:
        return _Influence(reason="no sample is shorter than the others")
    return _Influence(sorted(changes)[len(changes) // 2], sorted(noises)[len(noises) // 2])


def _runs_needed(twin: Twin, batch: Batch, whole: torch.Tensor) -> int:
    """Return how many runs are averaged: one, unless the identical batch gets another prediction."""
    again = _mean_of(twin, partial(twin.forward, batch), 1)
    return 1 if again is not None and torch.equal(again, whole) else RUNS


def _mean_of(twin: Twin, forward: Callable[[], Any], runs: int) -> torch.Tensor | None:
    """Return the mean prediction of some runs, each from the same kept state and with random numbers of its own."""
    outputs = []
    for _ in range(runs):
        with from_one_state(twin.model):
            output = main_output(forward())
        if output is None:
            return None
        outputs.append(output.double())
    return torch.stack(outputs).mean(0)


def _forward_cut(twin: Twin, padded: _Padded, batch: Batch, row: int) -> Any:
    """Run one sample without its padding; lengths that count padding in would be too long for it."""
    try:
        return twin.forward(padded.cut(batch, row))
    except NbdebugError:
        raise
    except Exception:
        return twin.forward(padded.cut(batch, row, lengths_too=True))


def _difference(alone: torch.Tensor | None, cut: torch.Tensor | None, padded: _Padded, row: int) -> float:
    if alone is None or cut is None:
        return 0.0
    if alone.shape != cut.shape:  # an answer for every place: compare those that are left
        length = int(padded.lengths[row])
        for dim in range(1, alone.dim()):
            if alone.shape[dim] == padded.longest and cut.shape[dim] == length:
                alone = alone.narrow(dim, 0 if padded.at_end else padded.longest - length, length)
    if alone.shape != cut.shape:
        return 0.0
    return float((alone - cut).abs().mean())


def _in_loss(twin: Twin, batch: Batch, padded: _Padded) -> float | None:
    """Give the share of the gradient that comes from outputs at places of padding."""
    targets = list(batch.targets.values())
    if len(targets) != 1 or targets[0].shape[:2] != (batch.size, padded.longest):
        return None
    try:
        with twin.mode(training=False):
            box = open_box(twin, batch)
        path, output = next(iter(box.heads.items()))
        _, gradient = box.gradient(path, output)
    except Exception:
        twin.control.poll()
        return None
    axes = [dim for dim in range(1, output.dim()) if output.shape[dim] == padded.longest]
    if gradient is None or not axes or output.shape[0] != batch.size:
        return None
    pull = gradient.abs().movedim(axes[0], 1).reshape(batch.size, padded.longest, -1).sum(2)
    places = torch.arange(padded.longest, device=pull.device)
    lengths = padded.lengths.to(pull.device)[:, None]
    filled = places >= lengths if padded.at_end else places < padded.longest - lengths
    total = float(pull.sum())
    return float(pull[filled].sum()) / total if total > 0 else None
