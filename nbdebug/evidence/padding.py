"""Padding in the inputs, and what it does to predictions and loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.compared_positions import compared
from nbdebug.experiments.kept_state import from_one_state
from nbdebug.experiments.loss_of_outputs import open_box
from nbdebug.experiments.padding import Padded, padded_inputs
from nbdebug.experiments.tape import record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output
from nbdebug.setup.user_code import user_code

__all__ = ["PaddingTrial", "padding"]


@dataclass(frozen=True)
class PaddingTrial:
    """Padding in the inputs, and what it does to the prediction and the loss.

    `share` is the part of all places that is padding. `influence` is the relative change of a prediction when the
    padding of its sample is cut off, None where the model cannot be run without; `noise` is the same for the identical
    input, 0 for a model that is deterministic in eval mode. `in_loss` is the share of the gradient at the outputs that
    comes from places that are padding, None where outputs have no places. Padding before the data (not `at_end`) is
    read first and forgotten by a network that reads on.
    """

    name: str
    value: float
    share: float
    samples: int
    longest: int
    influence: float | None = None
    in_loss: float | None = None
    at_end: bool = True
    noise: float = 0.0
    reason: str = ""

    def changes_predictions(self, influence: float, noises: float) -> bool:
        """Whether padding changes predictions by more than this, and by so many times the noise between equal runs."""
        return self.influence is not None and self.influence > max(influence, noises * self.noise)


BATCHES = 4
TRIED = 8
RUNS = 16  # of a model that is random in eval mode, averaged


@probe
def padding(sandbox: Sandbox, trial: TrialRun | None) -> PaddingTrial:
    """Remove the padding of each sequence and compare the predictions."""
    if trial is not None:
        require_run(trial)
    batches = sandbox.batches(BATCHES)
    seen = [found for batch in batches for found in padded_inputs(batch)]
    if not seen or not list(padded_inputs(batches[0])):
        raise NotApplicable("no input looks like padded sequences")
    here = next(padded_inputs(batches[0]))
    same = [found for found in seen if found.name == here.name]
    share = sum(found.share for found in same) / len(same)
    count = sum(len(found.lengths) for found in same)
    influence = _influence(sandbox, batches[0], here)
    in_loss = _in_loss(sandbox, batches[0], here)
    if in_loss is None:
        in_loss = _on_tape(sandbox, batches[0], here)
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


@dataclass(frozen=True)
class _Influence:
    """The median change of a prediction without the padding, and between runs of the identical input."""

    value: float | None = None
    noise: float = 0.0
    reason: str = ""


@torch.no_grad()
def _influence(sandbox: Sandbox, batch: Batch, padded: Padded) -> _Influence:
    """Measure the change of a prediction without the padding, relative to how predictions differ."""
    rows = [r for r in padded.lengths.argsort().tolist() if 0 < int(padded.lengths[r]) < padded.longest]
    changes, noises = list[float](), list[float]()
    with user_code() as tried, sandbox.mode(training=False):
        whole = _mean_of(sandbox, partial(sandbox.forward, batch), 1)
        if whole is None or whole.shape[:1] != (batch.size,):
            return _Influence(reason="the model returns no output with one row per sample")
        spread = max(float(whole.std(0).mean()), 1e-12)
        runs = _runs_needed(sandbox, batch, whole)
        for row in rows[:TRIED]:
            sample = partial(sandbox.forward, batch.select(torch.tensor([row])))
            alone = _mean_of(sandbox, sample, runs)
            again = alone if runs == 1 else _mean_of(sandbox, sample, runs)
            cut = _mean_of(sandbox, partial(_forward_cut, sandbox, padded, batch, row), runs)
            changes.append(_difference(alone, cut, padded, row) / spread)
            noises.append(_difference(alone, again, padded, row) / spread)
    if tried.failure:
        return _Influence(reason=f"the model fails on shorter sequences ({tried.kind})")
    if not changes:
        return _Influence(reason="no sample is shorter than the others")
    return _Influence(sorted(changes)[len(changes) // 2], sorted(noises)[len(noises) // 2])


def _runs_needed(sandbox: Sandbox, batch: Batch, whole: torch.Tensor) -> int:
    """Return how many runs are averaged: one, unless the identical batch gets another prediction."""
    again = _mean_of(sandbox, partial(sandbox.forward, batch), 1)
    return 1 if again is not None and torch.equal(again, whole) else RUNS


def _mean_of(sandbox: Sandbox, forward: Callable[[], Any], runs: int) -> torch.Tensor | None:
    """Return the mean prediction of some runs, each from the same kept state and with random numbers of its own."""
    outputs = []
    for _ in range(runs):
        with from_one_state(sandbox.model):
            output = main_output(forward())
        if output is None:
            return None
        outputs.append(output.double())
    return torch.stack(outputs).mean(0)


def _forward_cut(sandbox: Sandbox, padded: Padded, batch: Batch, row: int) -> Any:
    """Run one sample without its padding; lengths that count padding in would be too long for it."""
    with user_code():
        return sandbox.forward(padded.cut(batch, row))
    return sandbox.forward(padded.cut(batch, row, lengths_too=True))


def _difference(alone: torch.Tensor | None, cut: torch.Tensor | None, padded: Padded, row: int) -> float:
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


def _in_loss(sandbox: Sandbox, batch: Batch, padded: Padded) -> float | None:
    """Return the share of the gradient that comes from outputs at places of padding."""
    targets = list(batch.targets.values())
    if len(targets) != 1 or targets[0].shape[:2] != (batch.size, padded.longest):
        return None
    with user_code(passing=()) as tried:
        with sandbox.mode(training=False):
            box = open_box(sandbox, batch)
        path, output = next(iter(box.heads.items()))
        _, gradient = box.gradient(path, output)
    if tried.failure:
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


def _on_tape(sandbox: Sandbox, batch: Batch, padded: Padded) -> float | None:
    """Return the same where the program alone knows what is compared, shifted by one step or not."""
    tape = None
    with sandbox.mode(training=False), user_code(passing=()):
        tape = record(sandbox, batch, hold_modes=True)
    if tape is None:
        return None
    for seen in compared(tape, batch.size):
        length = seen.target.shape[1]
        filled = ~padded.is_data[:, padded.longest - length :] if padded.longest - length in (0, 1) else None
        if filled is None or len(seen.target[filled].unique()) != 1:
            continue  # where the input is filled up, the target has one value as well
        pull = seen.pull.sum()
        return float(seen.pull[filled].sum() / pull) if float(pull) > 0 else None
    return None
