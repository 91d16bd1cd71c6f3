"""Do the numbers stay finite, forward and back, and if not: where is the first bad one born?"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.autograd_graph import NodeOwners, first_bad_node
from nbdebug.experiments.capture import paths_of, tapped
from nbdebug.experiments.nan_origin import NonFiniteOrigin, OperationWatch, is_bad
from nbdebug.experiments.sample_exchange import runs, several_batches
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.sample_dataset import seed_all
from nbdebug.setup.user_code import user_code

__all__ = ["FinitePasses", "NonFinite", "finite_passes"]


@dataclass(frozen=True)
class NonFinite:
    """One place where a NaN or an infinity was born, and where it was noticed.

    `operation` is "parameter", "buffer" or "input" when it was there from the beginning; `values` are the numbers that
    the operation was given where its result is bad.
    """

    kind: str  # "NaN" or "inf"
    operation: str
    where: str
    module: str
    source: str
    values: tuple[str, ...]
    dtype: str
    position: tuple[int, ...]
    reached: str
    batch: int
    mode: str


@dataclass(frozen=True)
class FinitePasses:
    """Whether outputs, loss and gradients stay finite over several batches, in training and in eval mode."""

    batches: int
    forward: NonFinite | None = None
    backward: NonFinite | None = None
    quiet: NonFinite | None = None  # NaN in the outputs that neither the loss nor a gradient gets to see
    bad_inputs: int = 0
    has_gradient: bool = True


BATCHES = 8


@probe
def finite_passes(sandbox: Sandbox, trial: TrialRun, control: Control) -> FinitePasses:
    """Run several batches in both modes and locate the first non-finite value."""
    require_run(trial)
    sandbox.ready_to_train()
    batches, quiet, bad_inputs, trains = several_batches(sandbox, BATCHES), None, 0, True
    seen = 0
    with sandbox.mode(training=False):  # some models give something else there, and no loss
        modes = ("training", "eval") if runs(sandbox.run, batches[0]) else ("training",)
    for index in control.as_many(range(len(batches))):
        batch = batches[index]
        control.progress(index / len(batches), f"searching for NaN in batch {index}")
        for mode in modes:
            sandbox.model.zero_grad(set_to_none=True)
            found, trains = _examine(sandbox, batch, index, mode) if not index else _tried(sandbox, batch, index, mode)
            if found is not None and found[1].operation == "input":
                bad_inputs += 1
            elif found is not None and found[0] == "quiet":
                quiet = quiet or found[1]
            elif found is not None:
                return FinitePasses(seen + 1, **{found[0]: found[1]}, bad_inputs=bad_inputs, has_gradient=trains)
        seen += 1
    return FinitePasses(seen, quiet=quiet, bad_inputs=bad_inputs, has_gradient=trains)


def _tried(sandbox: Sandbox, batch: Batch, index: int, mode: str) -> tuple[tuple[str, NonFinite] | None, bool]:
    """Examine a later batch; one that does not go through at all is another check's to tell."""
    with user_code():
        return _examine(sandbox, batch, index, mode)
    return None, True


def _examine(sandbox: Sandbox, batch: Batch, index: int, mode: str) -> tuple[tuple[str, NonFinite] | None, bool]:
    """Run one batch in one mode; give what is wrong, and whether there is a gradient at all."""
    with sandbox.mode(training=False) if mode == "eval" else nullcontext():
        seed_all(index)
        outcome = sandbox.run(batch)
        loss = outcome.loss
        trains = isinstance(loss, torch.Tensor) and loss.requires_grad and loss.numel() == 1
        if isinstance(loss, torch.Tensor) and is_bad(loss):  # outputs alone do not count: a loss may mask them
            return ("forward", _trace_forward(sandbox, batch, index, mode, with_loss=True)), trains
        if trains and mode == "training":
            loss.backward()
            if harmed := _harmed_parameter(sandbox):
                return ("backward", _trace_backward(sandbox, batch, index, mode, harmed)), trains
        if outcome.predicted is not None and is_bad(outcome.predicted) == "NaN":
            return ("quiet", _trace_forward(sandbox, batch, index, mode, with_loss=False)), trains
    return None, trains


def _harmed_parameter(sandbox: Sandbox) -> str:
    for name, parameter in sandbox.model.named_parameters():
        if parameter.grad is not None and is_bad(parameter.grad):
            return name
    return ""


def _trace_forward(sandbox: Sandbox, batch: Batch, index: int, mode: str, *, with_loss: bool) -> NonFinite:
    """Run the batch again with the same random state and every operation watched."""
    owners, called = NodeOwners(), list[bool]()

    def place() -> str:
        return owners.innermost or _outside(sandbox, bool(called))

    def before(path: str, module: Any, inputs: Any) -> None:
        called.append(True)
        owners.before(path, module, inputs)

    watch = OperationWatch(place)
    _tell_what_is_given(watch, sandbox, batch)
    seed_all(index)
    origin = None
    with user_code():  # some operations cannot be watched; what is wrong is still said
        with tapped(sandbox.model, after=owners.after, before=before), watch:
            outcome = sandbox.run(batch)
        ends = [*([outcome.loss] if with_loss else []), *tensors_in(outcome.output)]
        origins = [watch.origin_of(t) for t in ends if isinstance(t, torch.Tensor) and is_bad(t)]
        origin = next((b for b in origins if b is not None), None)
    return _said(origin, sandbox, index, mode, "the loss" if with_loss else "the outputs")


def _tell_what_is_given(watch: OperationWatch, sandbox: Sandbox, batch: Batch) -> None:
    for name, tensor in sandbox.model.named_buffers():
        watch.given(tensor, name, "buffer")
    for name, tensor in sandbox.model.named_parameters():
        if not torch.nn.parameter.is_lazy(tensor):
            watch.given(tensor.detach(), name, "parameter")
    for name, tensor in {**batch.inputs, **batch.targets}.items():
        watch.given(tensor, name, "input")


def _outside(sandbox: Sandbox, called: bool) -> str:
    """Name the code that runs when no module does."""
    if sandbox.compute_loss is not None:
        return "compute_loss"
    return "loss_fn" if called else "model"


def _trace_backward(sandbox: Sandbox, batch: Batch, index: int, mode: str, reached: str) -> NonFinite:
    """Run the batch again with every node of the graph watched."""
    owners = NodeOwners()
    sandbox.model.zero_grad(set_to_none=True)
    seed_all(index)
    origin = None
    with user_code(), torch.autograd.set_detect_anomaly(True, check_nan=False):
        with tapped(sandbox.model, after=owners.after, before=owners.before):
            outcome = sandbox.run(batch)
        owners.claim(outcome.loss, _outside(sandbox, True))
        origin = first_bad_node(outcome.loss, owners)
    return _said(origin, sandbox, index, mode, f"the gradient of {reached}")


def _said(origin: NonFiniteOrigin | None, sandbox: Sandbox, index: int, mode: str, reached: str) -> NonFinite:
    if origin is None:
        return NonFinite("NaN", "", "", "", "", (), "", (), reached, index, mode)
    where = origin.where or _outside(sandbox, True)
    module = paths_of(sandbox.model).get(where)
    kind = origin.result if origin.kind == "inf" and origin.result in ("inf", "-inf") else origin.kind
    return NonFinite(
        kind, origin.operation, where, type(module).__name__ if module is not None else "", origin.source,
        origin.values, origin.dtype, origin.position,
        reached, index, mode,
    )  # fmt: skip
