"""Values of a run that sum a whole sequence up in one vector per sample, as the code of an autoencoder does."""

from __future__ import annotations

from collections.abc import Callable

import torch

from nbdebug.experiments.tape import Tape
from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["summaries"]

REDUCE = ("mean", "sum", "amax", "max", "logsumexp", "gru", "lstm", "rnn_tanh", "rnn_relu", "matmul", "bmm", "einsum")
PICKS = 3  # single positions that are taken out; a loop over time takes all of them


def summaries(
    sandbox: Sandbox, batch: Batch, tape: Tape, source: str, lengths: set[int]
) -> Callable[[Batch], torch.Tensor | None] | None:
    """Find the values that sum a sequence up in one vector per sample; None where there are none.

    Return a run in which they stay as they are with this batch, which gives the prediction for another one.
    """
    recording = run_recorded(sandbox, batch, step=tape.is_step, seed=tape.seed, hold_modes=True)
    last = tape.prediction.op
    if [op.name for op in recording.ops[: last + 1]] != [op.name for op in tape.recording.ops[: last + 1]]:
        return None
    held = {n: value for op in recording.ops[:last] for n, value in _summed_up(recording, op, source, lengths).items()}
    picked = [n for n in held if recording.ops[recording.values[n].producer].name not in REDUCE]
    held = {n: value for n, value in held.items() if len(picked) <= PICKS or n not in picked}

    def run(changed: Batch) -> torch.Tensor | None:
        again = run_recorded(sandbox, changed, step=tape.is_step, seed=tape.seed, hold_modes=True, overrides=dict(held))
        same = [op.name for op in again.ops[: last + 1]] == [op.name for op in recording.ops[: last + 1]]
        found = again.values[tape.prediction.number].tensor if same else None
        return found.detach() if found is not None else None

    return run if held else None


def _summed_up(recording: Recording, op: Op, source: str, lengths: set[int]) -> dict[int, torch.Tensor]:
    """Return what an op makes of a whole sequence that has no position any more."""
    values = recording.values
    takes = any(source in values[n].sources and lengths.intersection(values[n].shape) for n in op.inputs)
    if not takes or (op.name not in REDUCE and op.name not in ("__getitem__", "select", "gather", "index_select")):
        return {}
    made = {n: values[n].tensor for n in op.made if not lengths.intersection(values[n].shape) and values[n].is_live}
    return {n: tensor.detach() for n, tensor in made.items() if tensor is not None and tensor.is_floating_point()}
