"""Does it run at all?"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import BadInput, NbdebugError, NotApplicable
from nbdebug.experiments.capture import CallStack, Given, tapped
from nbdebug.experiments.infer_layout import layout_of
from nbdebug.experiments.inplace_changes import find_mutation, held_graphs
from nbdebug.experiments.locate_module import place_at, record
from nbdebug.experiments.sample_exchange import runs, several_batches
from nbdebug.experiments.shape_fixes import Suggestion, labels_met, layer_fits, loss_fits
from nbdebug.experiments.source_lines import line_of
from nbdebug.experiments.tape import compares_with_batch
from nbdebug.experiments.torch_error_patterns import error_pattern
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.batch_layout import BatchLayout, describe
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.user_code import user_code

__all__ = ["TrialRun", "trial_run"]


@dataclass(frozen=True)
class TrialRun:
    """Whether one forward, loss and backward go through, and if not: where, with which shapes, and what would fit.

    Only the first batch in training mode decides whether `ok` is true; `later` is what failed in another batch or in
    eval mode.
    """

    failed_at: str  # "" when all went well, otherwise "forward", "loss", "backward" or "code" (outside of them)
    error: str = ""
    where: str = ""
    module: str = ""
    input_shapes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    fits: tuple[Suggestion, ...] = ()
    detail: str = ""
    source: str = ""
    batch: str = ""
    index: int = 0
    mode: str = "training"
    misread: bool = False  # the model was called in another way than it wants, which may be our reading of the batch
    later: TrialRun | None = None
    kind: str = ""  # which of torch's kinds of errors this is: shape, dtype, device, label …
    layout: BatchLayout | None = None  # None where nothing ran
    advice: tuple[tuple[str, str], ...] = ()  # what to do about that kind, with the code to write

    @property
    def ok(self) -> bool:
        """Whether everything ran."""
        return not self.failed_at

    def has_met(self, error: Exception) -> bool:
        """Whether this is what failed in another batch or in eval mode, so that an experiment failed by it as well."""
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        return self.later is not None and bool(self.later.error) and said.startswith(self.later.error.splitlines()[0])


BATCHES = 4
_MISCALLED = re.compile(r"forward\(\) (missing|takes|got an unexpected|got multiple)|object of type|indices must be")


@probe
def trial_run(sandbox: Sandbox, control: Control) -> TrialRun:
    """Run a few batches forward, through the loss and backward."""
    sandbox.ready_to_train()
    batches = several_batches(sandbox, BATCHES)
    for index in control.as_many(range(len(batches)), part=0.3):
        control.progress(index / len(batches), f"running batch {index}")
        failed = _attempt(sandbox, batches[index], index)
        if failed is not None:
            break
    if failed is not None and not index:
        if sandbox.train_step is not None and _own_step_runs(sandbox, batches[0]):
            raise NotApplicable(
                f"your train_step runs, but the {failed.failed_at} pass fails without it; pass compute_loss="
            )
        return failed
    if not compares_with_batch(sandbox, batches[0]):
        raise NotApplicable("your train_step compares outputs with constants or noise alone; pass compute_loss=")
    later = failed if failed is not None else _attempt(sandbox, batches[0], 0, training=False)
    layout = BatchLayout(batches[0].size)
    with user_code(passing=()):  # nested and sparse tensors refuse some of the questions
        layout = layout_of(sandbox, batches[0])
    layout = replace(layout, whole=_takes_whole_batches_only(sandbox, batches[0]))
    return TrialRun("", batch=describe(batches[0].reading), later=later, layout=layout)


def _takes_whole_batches_only(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether half of a batch fails in one mode or means nothing where all of it runs: no experiment may cut it."""
    if batch.joined_by:
        return True
    half = batch.head(max(2, batch.size // 2))
    if half.size == batch.size:
        return False
    with torch.no_grad():
        for training in (True, False):
            with sandbox.mode(training):
                if not runs(sandbox.run, half) and runs(sandbox.run, batch):
                    return True
    return False


def _attempt(sandbox: Sandbox, batch: Batch, index: int, training: bool = True) -> TrialRun | None:
    """Run one batch; in eval mode forward only, because some models answer differently there."""
    stack, run = CallStack(), _Run()
    try:
        with tapped(sandbox.model, after=stack.leave, before=stack.enter):
            if not training:
                with sandbox.mode(training=False):
                    sandbox.forward(batch) if sandbox.compute_loss is None else sandbox.run(batch)
                return None
            run.forward_and_loss(sandbox, batch, stack)
        run.stage = "backward"
        if run.loss.requires_grad:
            run.loss.backward()
        return None
    except BadInput as error:
        raise NotApplicable(f"{error.seen}; {error.do}") from None
    except NbdebugError:
        raise
    except Exception as error:
        failure = _failure(run, error, stack, sandbox, batch, index, "training" if training else "eval")
        traceback.clear_frames(error.__traceback__)
        return failure


class _Run:
    """How far one pass got, with what it had by then."""

    def __init__(self) -> None:
        self.stage = "forward"
        self.output: Any = None
        self.loss: Any = None

    def forward_and_loss(self, sandbox: Sandbox, batch: Batch, stack: CallStack) -> None:
        """Run the model and the loss; what comes out has to be one number."""
        if sandbox.compute_loss is None:
            self.output = sandbox.forward(batch)
            self.stage = "loss"
            self.loss = sandbox.loss_of(self.output, batch)
        else:
            self.loss = _by_hand(sandbox, batch)
        self.stage = "loss"
        if not isinstance(self.loss, torch.Tensor):
            raise TypeError("the loss is None or not a tensor")
        if self.loss.numel() != 1:
            raise ValueError(f"the loss has shape {tuple(self.loss.shape)}; backward requires a scalar")


def _by_hand(sandbox: Sandbox, batch: Batch) -> Any:
    try:
        return sandbox.run(batch).loss
    except BadInput as error:
        if error.where != "compute_loss":
            raise
        return None


def _own_step_runs(sandbox: Sandbox, batch: Batch) -> bool:
    with user_code():
        fresh = sandbox.fresh()
        fresh.ready_to_train()
        fresh.user_step(batch.clone())
        return True
    return False


def _failure(
    run: _Run, error: Exception, stack: CallStack, sandbox: Sandbox, batch: Batch, index: int, mode: str
) -> TrialRun:
    where, module, inputs = stack.innermost if stack.innermost else ("", None, Given())
    stage = "forward" if stack.innermost else "loss" if run.stage == "forward" and stack.done else run.stage
    text = f"{type(error).__name__}: {error}"
    found = _explain(stage, run, error, sandbox, batch, module, inputs)
    pattern = error_pattern(text)
    met = tensors_in(inputs) if stage == "forward" else tensors_in((run.output, batch.target))
    return TrialRun(
        stage,
        error=text,
        where=found.get("where") or where or _outside(sandbox, stage),
        module=type(module).__name__ if module is not None else "",
        input_shapes=tuple(tuple(t.shape) for t in met) if stage != "backward" else (),
        input_dtypes=tuple(str(t.dtype).removeprefix("torch.") for t in met) if stage != "backward" else (),
        fits=tuple(found.get("fits", ())),
        detail=found.get("detail", ""),
        source=found.get("source", line_of(error)),
        batch=describe(batch.reading),
        index=index,
        mode=mode,
        kind=pattern.kind if pattern is not None else "",
        advice=pattern.advice if pattern is not None else (),
        misread=module in (None, sandbox.model) and stage == "forward" and bool(_MISCALLED.search(str(error))),
    )  # fmt: skip


def _outside(sandbox: Sandbox, stage: str) -> str:
    """Name the code that runs when no module does."""
    if sandbox.compute_loss is not None:
        return "compute_loss"
    return "model" if stage == "forward" else "loss_fn"


def _explain(
    stage: str, run: _Run, error: Exception, sandbox: Sandbox, batch: Batch, module: nn.Module | None, inputs: Given
) -> dict[str, Any]:
    """Find out more about a failure by running parts of the pass again; what cannot be found is left out."""
    with user_code():
        if stage == "forward" and module is not None:
            return {"fits": list(layer_fits(module, inputs.args, inputs.kwargs, str(error)))}
        if stage == "loss":
            return _about_loss(run, sandbox, batch)
        if stage == "backward":
            return _about_backward(str(error), sandbox, batch)
    return {}


def _about_loss(run: _Run, sandbox: Sandbox, batch: Batch) -> dict[str, Any]:
    if isinstance(run.loss, torch.Tensor):
        return {"fits": [Suggestion.of_code("loss.mean()")]}
    output, target = run.output, batch.target
    if sandbox.compute_loss is not None or not isinstance(target, torch.Tensor):
        return {}
    found: dict[str, Any] = {"fits": list(loss_fits(sandbox.loss_choice(output, batch).function, output, target))}
    if isinstance(output, torch.Tensor) and output.dim() and target.dim() and not found["fits"]:
        if output.shape[0] != target.shape[0] == batch.size:
            return found | _where_rows_change(sandbox, batch)
        found["detail"] = labels_met(output, target)
    return found


def _where_rows_change(sandbox: Sandbox, batch: Batch) -> dict[str, Any]:
    """Find the place where the number of rows stops to be the number of samples."""
    events = [event for event in record(sandbox, batch).events if event.tensors]
    kept = [i for i, event in enumerate(events) if batch.size in event.tensors[0].shape[:1]]
    if not kept or kept[-1] + 1 >= len(events):
        return {}
    event = events[kept[-1] + 1]
    rows = event.tensors[0].shape[0] if event.tensors[0].dim() else 0
    return {"where": event.path, "detail": f"the batch dimension changes from {batch.size} to {rows} {place_at(event)}"}


def _about_backward(error: str, sandbox: Sandbox, batch: Batch) -> dict[str, Any]:
    if "second time" in error or "freed" in error:
        held = held_graphs(sandbox.model)
        if held:
            path, _, name = held[0].rpartition(".")
            return {
                "where": path or "model",
                "detail": f"{held[0]} keeps the autograd graph of the previous batch",
                "fits": [Suggestion.of_code(f"self.{name}.detach()")],
            }
    if "inplace operation" in error:
        mutation = find_mutation(sandbox, batch, error)
        if mutation is not None:
            return {
                "where": mutation.where,
                "source": mutation.source,
                "detail": f"`{mutation.operation}` in `{mutation.where}` modifies in place a tensor that the backward "
                f"pass of `{mutation.needed_by}` needs",
            }
    return {}
