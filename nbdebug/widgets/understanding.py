"""What was understood before anything is asked: model, task, loss, optimizer, layout, and the first batch itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from nbdebug.core.text import clean_text, figure, shortened
from nbdebug.engine.session import Session
from nbdebug.errors import described
from nbdebug.sandbox import make_sandbox
from nbdebug.setup import Batch, Reading, Setup
from nbdebug.setup.batch_layout import describe, signature_of
from nbdebug.setup.loss import LossChoice, main_output
from nbdebug.setup.nested import leaves
from nbdebug.setup.other_readings import other_readings
from nbdebug.setup.several import kind_of_optimizer
from nbdebug.views.batch_preview.preview import BatchView
from nbdebug.views.batch_preview.source import glance

__all__ = ["Understanding", "understand"]

SAMPLES = 16  # of the batch that are shown
LARGEST = 50_000_000  # parameters of a model that is run once for the first screen
IDS, YES_NO, NUMBERS = ("CrossEntropy", "NLL"), ("BCE",), ("MSE", "L1", "Huber", "squared")


@dataclass(frozen=True)
class Understanding:
    """What is examined in a few words each, and the first batch; `problem` says what could not be found out."""

    model: str
    task: str
    loss: str
    why: str
    optimizer: str
    batch: str
    values: str = ""
    preview: BatchView | None = None
    problem: str = ""
    is_fixed: bool = False  # the loss is a function of the user's own, or the model's: no other can be chosen
    is_stepped: bool = False  # a training step of the user's own takes the optimizer
    how_read: str = ""
    readings: Mapping[str, Reading] = field(default_factory=dict)  # of a batch, that could be chosen in its place


def understand(session: Session) -> Understanding:
    """Draw the first batch and run a copy once on it; what fails is said, and left to the checks to explain."""
    setup = session.setup
    about, fixed = setup.description(), setup.compute_loss is not None
    known: dict[str, Any] = {"task": "unknown", "loss": _named(setup), "why": "", "batch": "not loaded"}
    try:
        batch, preview = session.experiment("first-look", "Looking at the first batch", lambda: _drawn(session))
        known |= {"batch": _layout(batch), "values": _values(batch), "preview": preview} | _readings(setup, batch)
        if about["parameters"] <= LARGEST:
            known |= session.experiment("first-look", "Looking at the first batch", lambda: _judged(session, batch))
    except Exception as error:  # the checks say what is wrong, and where
        known["problem"] = shortened(clean_text(described(error)), 200)
    fixed = known.pop("fixed", fixed)
    model = f"{about['model']} · {_short(about['parameters'])} parameters"
    stepped = setup.train_step is not None
    return Understanding(model=model, optimizer=_optimizer(setup), is_fixed=fixed, is_stepped=stepped, **known)


def _drawn(session: Session) -> tuple[Batch, BatchView]:
    batch = session.setup.batches(1)[0]
    return batch, glance(session.setup, batch, SAMPLES, session.control)


def _readings(setup: Setup, batch: Batch) -> dict[str, Any]:
    """Return why a batch is read as it is, and how else it could be; a loss or a step of the user's own reads it."""
    if setup.compute_loss is not None or setup.train_step is not None:
        return {"how_read": "your own code reads it"}
    others = other_readings(batch.raw, batch.reading, signature_of(setup.model))
    return {"how_read": describe(batch.reading), "readings": others}


def _judged(session: Session, drawn: Batch) -> dict[str, Any]:
    """Run a copy on the batch, and say which loss that means and which task."""
    if session.setup.compute_loss is not None:
        return {"task": "your own compute_loss", "why": "you passed compute_loss"}
    if session.setup.train_step is not None and session.setup.loss_fn is None:
        return {"task": "your own train_step", "loss": "train_step", "why": "you passed train_step", "fixed": True}
    sandbox = make_sandbox(session.setup, session.control)
    batch = sandbox.batch()
    with torch.no_grad():
        output = sandbox.forward(batch)
    choice = sandbox.loss_choice(output, batch)
    task = _task(choice, main_output(output), drawn)
    own = not choice.assumed and session.setup.loss_fn is None
    return {"loss": choice.name, "why": choice.reason, "task": task, "fixed": own}


def _task(choice: LossChoice, output: Any, batch: Batch) -> str:
    if not batch.has_target:
        return "reconstruction" if choice.assumed else "the model's own loss"
    if not isinstance(output, torch.Tensor):
        return "unknown"
    target = batch.target if isinstance(batch.target, torch.Tensor) else None
    if any(word in choice.name for word in IDS) and output.dim() > 1:
        per = " per position" if target is not None and not target.is_floating_point() and target.dim() > 1 else ""
        return f"{output.shape[-1 if _is_class_last(output, target) else 1]} classes{per}"
    if any(word in choice.name for word in YES_NO):
        is_map = output.dim() > 3  # samples × channels × height × width, as of a segmentation
        labels = 1 if output.dim() < 2 else output.shape[1 if is_map else -1]
        return ("binary" if labels == 1 else f"{labels} labels") + " per position" * is_map
    return "regression" if any(word in choice.name for word in NUMBERS) else "unknown"


def _is_class_last(output: torch.Tensor, target: torch.Tensor | None) -> bool:
    return target is not None and output.dim() > 2 and output.shape[:-1] == target.shape


def _named(setup: Setup) -> str:
    if setup.compute_loss is not None:
        return "compute_loss"
    loss = setup.loss_fn
    return "unknown" if loss is None else str(getattr(loss, "__name__", type(loss).__name__))


def _optimizer(setup: Setup) -> str:
    if setup.optimizer is None:
        return "Adam, lr 0.0003 (assumed)"
    kind = kind_of_optimizer(setup.optimizer)
    groups = getattr(setup.optimizer, "param_groups", None) or [{}]
    rate = groups[0].get("lr")
    return kind + (f", lr {float(rate):g}" if isinstance(rate, (int, float)) else "")


def _layout(batch: Batch) -> str:
    """Return the shapes of what the model gets, and that of the target."""
    inputs = [leaf for _, leaf in leaves((batch.args, batch.kwargs)) if isinstance(leaf, torch.Tensor)]
    shapes = ["×".join(map(str, leaf.shape)) or "1" for leaf in inputs[:3]] + ["…"] * (len(inputs) > 3)
    target = batch.target if batch.has_target else None
    arrow = f" → {'×'.join(map(str, target.shape)) or '1'}" if isinstance(target, torch.Tensor) else ""
    return ", ".join(shapes) + arrow if shapes else "no tensors"


def _values(batch: Batch) -> str:
    """Return the range and the type of the first input."""
    for _, leaf in leaves((batch.args, batch.kwargs)):
        if isinstance(leaf, torch.Tensor) and leaf.numel() and not leaf.is_complex():
            low, high = (float(x) for x in (leaf.min(), leaf.max()))
            return f"values {figure(low)} … {figure(high)}, {str(leaf.dtype).removeprefix('torch.')}"
    return ""


def _short(count: int) -> str:
    for size, unit in ((1_000_000_000, "B"), (1_000_000, "M"), (10_000, "k")):
        if count >= size:
            return f"{count / (1000 if unit == 'k' else size):.3g}{unit}"
    return f"{count:,}"
