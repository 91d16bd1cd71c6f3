"""Does it run at all?"""

from __future__ import annotations

import traceback
from pathlib import Path

import torch
from torch import nn

from nbdebug.errors import BadInput, Cancelled, NotApplicable, OutOfTime
from nbdebug.evidence import TrialRun
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.reading import describe
from nbdebug.twin import Twin
from nbdebug.twin.taps import CallStack, tapped, tensors_in

__all__ = ["trial_run"]


@probe
def trial_run(twin: Twin) -> TrialRun:
    """Run one batch forward, through the loss and backward."""
    batch, stack = twin.batch(), CallStack()
    stage = "forward"
    try:
        with tapped(twin.model, after=stack.leave, before=stack.enter):
            if twin.compute_loss is None:
                output = twin.forward(batch)
                stage = "loss"
                loss = twin.loss_of(output, batch)
            else:
                loss = twin.run(batch).loss
        stage = "backward"
        if isinstance(loss, torch.Tensor) and loss.requires_grad and loss.numel() == 1:
            loss.backward()
        return TrialRun("", batch=describe(batch.reading))
    except (BadInput, Cancelled, OutOfTime, NotApplicable):
        raise
    except Exception as error:
        return _failure(stage, error, stack, batch)


def _failure(stage: str, error: Exception, stack: CallStack, batch: Batch) -> TrialRun:
    where, module, inputs = ("", None, ()) if stage != "forward" or not stack.innermost else stack.innermost
    met = tensors_in(inputs) if inputs else []
    source = _source_line(error)
    traceback.clear_frames(error.__traceback__)
    return TrialRun(
        stage,
        error=f"{type(error).__name__}: {error}",
        where=where,
        module=type(module).__name__ if module is not None else "",
        input_shapes=tuple(tuple(t.shape) for t in met),
        input_dtypes=tuple(str(t.dtype).removeprefix("torch.") for t in met),
        expected=_expectation(module),
        source=source,
        batch=describe(batch.reading),
    )


# layer -> the attribute that says what it accepts, and what that counts
_ASKS = {
    "Linear": ("in_features", "features in the last dimension"),
    "LSTM": ("input_size", "features in the last dimension"),
    "GRU": ("input_size", "features in the last dimension"),
    "RNN": ("input_size", "features in the last dimension"),
    "Embedding": ("num_embeddings", "ids, counted from 0"),
    "Conv": ("in_channels", "channels in dimension 1"),
    "BatchNorm": ("num_features", "channels in dimension 1"),
    "LayerNorm": ("normalized_shape", "as the last dimensions"),
}


def _expectation(module: nn.Module | None) -> str:
    """Say what the usual layers would accept."""
    name = type(module).__name__
    for prefix, (attribute, counted) in _ASKS.items():
        if name.startswith(prefix) and hasattr(module, attribute):
            return f"{getattr(module, attribute)} {counted}"
    return ""


def _source_line(error: Exception) -> str:
    """Give the last line of the user's own code, which is outside torch and outside this package."""
    here = str(Path(__file__).parents[1])
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(here) and f"{Path(torch.__file__).parent}" not in frame.filename
    ]
    if not frames:
        return ""
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line or ''}".strip()
