"""Does it run at all?"""

from __future__ import annotations

import re
import time
import traceback
from typing import Any

import torch
from torch import nn

from nbdebug.control import Control
from nbdebug.errors import BadInput, NbdebugError, NotApplicable
from nbdebug.evidence import Suggestion, TrialRun
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.reading import describe
from nbdebug.twin import Twin
from nbdebug.twin.fitting import labels_met, layer_fits, loss_fits
from nbdebug.twin.locate import place_at, record
from nbdebug.twin.mishaps import mishap_of
from nbdebug.twin.mutations import find_mutation, held_graphs
from nbdebug.twin.samples import runs, several_batches
from nbdebug.twin.sources import line_of
from nbdebug.twin.taps import CallStack, Given, tapped, tensors_in

__all__ = ["trial_run"]

BATCHES = 4
SECONDS = 3.0
_MISCALLED = re.compile(r"forward\(\) (missing|takes|got an unexpected|got multiple)|object of type|indices must be")


@probe
def trial_run(twin: Twin, control: Control) -> TrialRun:
    """Run a few batches forward, through the loss and backward."""
    twin.ready_to_train()
    batches, begun = several_batches(twin, BATCHES), time.monotonic()
    failed = _attempt(twin, batches[0], 0)
    if failed is not None:
        if twin.train_step is not None and _own_step_runs(twin, batches[0]):
            raise NotApplicable(
                f"your train_step runs, but the {failed.failed_at} pass fails without it; pass compute_loss="
            )
        return failed
    later = None
    for index, batch in enumerate(batches[1:], 1):
        control.progress(index / len(batches), f"running batch {index}")
        if later is None and time.monotonic() - begun < SECONDS:
            later = _attempt(twin, batch, index)
    if later is None:
        later = _attempt(twin, batches[0], 0, training=False)
    twin.subject.whole_batches = _takes_whole_batches_only(twin, batches[0])
    return TrialRun("", batch=describe(batches[0].reading), later=later)


def _takes_whole_batches_only(twin: Twin, batch: Batch) -> bool:
    """Whether half of a batch fails or means nothing where all of it runs: then no experiment may cut it."""
    if batch.joined_by:
        return True
    half = batch.head(max(2, batch.size // 2))
    if half.size == batch.size:
        return False
    with torch.no_grad():
        for training in (True, False):
            with twin.mode(training):
                if runs(twin.run, half) or not runs(twin.run, batch):
                    return False
    return True


def _attempt(twin: Twin, batch: Batch, index: int, training: bool = True) -> TrialRun | None:
    """Run one batch; in eval mode forward only, because some models answer differently there."""
    stack, run = CallStack(), _Run()
    try:
        with tapped(twin.model, after=stack.leave, before=stack.enter):
            if not training:
                with twin.mode(training=False):
                    twin.forward(batch) if twin.compute_loss is None else twin.run(batch)
                return None
            run.forward_and_loss(twin, batch, stack)
        run.stage = "backward"
        if run.loss.requires_grad:
            run.loss.backward()
        return None
    except BadInput as error:
        raise NotApplicable(f"{error.seen}; {error.do}") from None
    except NbdebugError:
        raise
    except Exception as error:
        failure = _failure(run, error, stack, twin, batch, index, "training" if training else "eval")
        traceback.clear_frames(error.__traceback__)
        return failure


class _Run:
    """How far one pass got, with what it had by then."""

    def __init__(self) -> None:
        self.stage = "forward"
        self.output: Any = None
        self.loss: Any = None

    def forward_and_loss(self, twin: Twin, batch: Batch, stack: CallStack) -> None:
        """Run the model and the loss; what comes out has to be one number."""
        if twin.compute_loss is None:
            self.output = twin.forward(batch)
            self.stage = "loss"
            self.loss = twin.loss_of(self.output, batch)
        else:
            self.loss = _by_hand(twin, batch)
        self.stage = "loss"
        if not isinstance(self.loss, torch.Tensor):
            raise TypeError("the loss is None or not a tensor")
        if self.loss.numel() != 1:
            raise ValueError(f"the loss has shape {tuple(self.loss.shape)}; backward requires a scalar")


def _by_hand(twin: Twin, batch: Batch) -> Any:
    try:
        return twin.run(batch).loss
    except BadInput as error:
        if error.where != "compute_loss":
            raise
        return None


def _own_step_runs(twin: Twin, batch: Batch) -> bool:
    try:
        fresh = twin.fresh()
        fresh.ready_to_train()
        fresh.user_step(batch.clone())
        return True
    except NbdebugError:
        raise
    except Exception:
        return False


def _failure(
    run: _Run, error: Exception, stack: CallStack, twin: Twin, batch: Batch, index: int, mode: str
) -> TrialRun:
    where, module, inputs = stack.innermost if stack.innermost else ("", None, Given())
    stage = "forward" if stack.innermost else "loss" if run.stage == "forward" and stack.done else run.stage
    text = f"{type(error).__name__}: {error}"
    found = _explain(stage, run, error, twin, batch, module, inputs)
    mishap = mishap_of(text)
    met = tensors_in(inputs) if stage == "forward" else tensors_in((run.output, batch.target))
    return TrialRun(
        stage,
        error=text,
        where=found.get("where") or where or _outside(twin, stage),
        module=type(module).__name__ if module is not None else "",
        input_shapes=tuple(tuple(t.shape) for t in met) if stage != "backward" else (),
        input_dtypes=tuple(str(t.dtype).removeprefix("torch.") for t in met) if stage != "backward" else (),
        fits=tuple(found.get("fits", ())),
        detail=found.get("detail", ""),
        source=found.get("source", line_of(error)),
        batch=describe(batch.reading),
        index=index,
        mode=mode,
        kind=mishap.kind if mishap is not None else "",
        advice=mishap.advice if mishap is not None else (),
        misread=module in (None, twin.model) and stage == "forward" and bool(_MISCALLED.search(str(error))),
    )  # fmt: skip


def _outside(twin: Twin, stage: str) -> str:
    """Name the code that runs when no module does."""
    if twin.compute_loss is not None:
        return "compute_loss"
    return "model" if stage == "forward" else "loss_fn"


def _explain(
    stage: str, run: _Run, error: Exception, twin: Twin, batch: Batch, module: nn.Module | None, inputs: Given
) -> dict[str, Any]:
    """Find out more about a failure by running parts of the pass again; what cannot be found is left out."""
    try:
        if stage == "forward" and module is not None:
            return {"fits": list(layer_fits(module, inputs.args, inputs.kwargs, str(error)))}
        if stage == "loss":
            return _about_loss(run, twin, batch)
        if stage == "backward":
            return _about_backward(str(error), twin, batch)
    except NbdebugError:
        raise
    except Exception:
        pass
    return {}


def _about_loss(run: _Run, twin: Twin, batch: Batch) -> dict[str, Any]:
    if isinstance(run.loss, torch.Tensor):
        return {"fits": [Suggestion.of_code("loss.mean()")]}
    output, target = run.output, batch.target
    if twin.compute_loss is not None or not isinstance(target, torch.Tensor):
        return {}
    found: dict[str, Any] = {"fits": list(loss_fits(twin.loss_choice(output, batch).function, output, target))}
    if isinstance(output, torch.Tensor) and output.dim() and target.dim() and not found["fits"]:
        if output.shape[0] != target.shape[0] == batch.size:
            return found | _where_rows_change(twin, batch)
        found["detail"] = labels_met(output, target)
    return found


def _where_rows_change(twin: Twin, batch: Batch) -> dict[str, Any]:
    """Find the place where the number of rows stops to be the number of samples."""
    events = [event for event in record(twin, batch).events if event.tensors]
    kept = [i for i, event in enumerate(events) if batch.size in event.tensors[0].shape[:1]]
    if not kept or kept[-1] + 1 >= len(events):
        return {}
    event = events[kept[-1] + 1]
    rows = event.tensors[0].shape[0] if event.tensors[0].dim() else 0
    return {"where": event.path, "detail": f"the batch dimension changes from {batch.size} to {rows} {place_at(event)}"}


def _about_backward(error: str, twin: Twin, batch: Batch) -> dict[str, Any]:
    if "second time" in error or "freed" in error:
        held = held_graphs(twin.model)
        if held:
            path, _, name = held[0].rpartition(".")
            return {
                "where": path or "model",
                "detail": f"{held[0]} keeps the autograd graph of the previous batch",
                "fits": [Suggestion.of_code(f"self.{name}.detach()")],
            }
    if "inplace operation" in error:
        mutation = find_mutation(twin, batch, error)
        if mutation is not None:
            return {
                "where": mutation.where,
                "source": mutation.source,
                "detail": f"`{mutation.operation}` in `{mutation.where}` modifies in place a tensor that the backward "
                f"pass of `{mutation.needed_by}` needs",
            }
    return {}
