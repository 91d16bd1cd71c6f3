"""The loss as a function of what the model gives, and of nothing else.

Whether the loss is a plain function, a function of the user's that runs the model, a whole training step, or part of
the model: the model's answer is exchanged for one that the experiment makes up, and the loss that comes out is read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbdebug.errors import NotApplicable
from nbdebug.experiments.output_override import CalledOutput, called_outputs, caught, giving
from nbdebug.experiments.taped_loss import TapedLoss, taped_loss
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output, own_loss, total_of
from nbdebug.setup.nested import Path, detached, leaves, name_of, replace_at, tensors_in
from nbdebug.setup.sample_dataset import seed_torch
from nbdebug.setup.user_code import user_code

__all__ = ["LossBox", "box_at_head", "head_name", "open_box", "plain_box"]

MOST_HEADS = 6

Evaluate = Callable[[Any, Batch], Any]
Run = Callable[[Batch], Any]  # the user's own way from a batch to its loss


@dataclass
class LossBox:
    """A loss that can be asked: what would you say if the model had answered this?

    `place` says where the loss is written: loss_fn, compute_loss, train_step, or the model itself; `answer` runs the
    model on a batch and gives what the loss takes from it; `is_sole` says that surely nothing else is taken. `taped` is
    the recorded run that it was read from, which knows the target as the loss receives it.
    """

    place: str
    output: Any
    batch: Batch
    evaluate: Evaluate
    answer: Callable[[Batch], Any]
    is_sole: bool = True
    taped: TapedLoss | None = None

    @property
    def heads(self) -> dict[Path, torch.Tensor]:
        """The tensors of the model's answer that a loss could read, the main one first."""
        found = [(path, leaf) for path, leaf in leaves(self.output) if _is_answer(leaf)]
        main = main_output(self.output)
        return dict(sorted(found, key=lambda item: item[1] is not main)[:MOST_HEADS])

    def error(self) -> str:
        """Return what the loss raises for the model's own answer; empty where it raises nothing."""
        with user_code(passing=()) as tried:
            self.evaluate(self.output, self.batch)
        return tried.failure

    def loss(self, path: Path, values: torch.Tensor, batch: Batch | None = None) -> float:
        """Return the loss if the tensor at this path were these values; NaN where the loss refuses them."""
        with user_code():
            leaf = values.detach().clone().requires_grad_(True)  # a training step goes backward through it
            return float(self._ask(path, leaf, batch).detach())
        return float("nan")

    def gradient(self, path: Path, values: torch.Tensor) -> tuple[float, torch.Tensor | None]:
        """Return the loss and its gradient for these values; None where nothing flows back or the loss refuses."""
        leaf = values.detach().clone().requires_grad_(True)
        with user_code() as tried:
            loss = self._ask(path, leaf, None)
            if leaf.grad is None and loss.requires_grad:
                (leaf.grad,) = torch.autograd.grad(loss, leaf, allow_unused=True)
        if tried.failure:
            return float("nan"), None
        return float(loss.detach()), leaf.grad.detach().double() if leaf.grad is not None else None

    def _ask(self, path: Path, values: torch.Tensor, batch: Batch | None) -> torch.Tensor:
        seed_torch(0)  # noise inside the loss must be the same each time
        answer = replace_at(self.output, path, values) if path else values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user has seen them once, with their own outputs
            loss = total_of(self.evaluate(answer, batch if batch is not None else self.batch))
        if loss is None:
            raise NotApplicable("the loss is not a number")
        one: torch.Tensor = loss.mean()  # one that was left unreduced is judged by its mean
        return one


def head_name(path: Path) -> str:
    """Name one output of the model as a person would; the only one has no name."""
    return name_of(path).removeprefix("batch") if path else ""


def open_box(sandbox: Sandbox, batch: Batch, *, alone: bool = False, inside: bool = False) -> LossBox:
    """Find out how the loss is computed here, and make it a function of the model's answer.

    A plain `loss_fn` is called. In a program of another shape, the tape of one run says where the loss reads the model;
    what cannot be taped, as TorchScript or a loss that raises, is asked by exchanging what modules return. With
    `alone`, other terms of a taped loss are left out; with `inside`, a plain loss that first makes something else of
    the outputs is asked about that.
    """
    is_plain = _is_plain(sandbox, batch)
    taped = taped_loss(sandbox, batch, alone=alone) if inside or not is_plain else None
    if taped is None or (is_plain and not taped.is_made_in_loss):
        return _untaped_box(sandbox, batch)
    return _taped_box(sandbox, batch, taped)


def box_at_head(sandbox: Sandbox, box: LossBox) -> LossBox:
    """Return the box of a taped loss at the output of the last layer instead of at the prediction."""
    if box.taped is None or len(box.taped.tape.main.heads) != 1:
        return box
    return _taped_box(sandbox, box.batch, replace(box.taped, numbers=box.taped.tape.main.heads))


def _taped_box(sandbox: Sandbox, batch: Batch, taped: TapedLoss) -> LossBox:
    place = "loss_fn" if sandbox.loss_fn is not None else "model"
    place = "train_step" if taped.tape.is_step else "compute_loss" if sandbox.compute_loss is not None else place
    is_sole = len(taped.numbers) == 1
    return LossBox(place, taped.output, batch, taped.evaluate, taped.answer, is_sole=is_sole, taped=taped)


def _is_plain(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether the loss is a function of the model's output, and of nothing else that the run computes."""
    if sandbox.compute_loss is not None or sandbox.train_step is not None:
        return False
    numbers = [t for t in tensors_in(sandbox.forward(batch)) if t.is_floating_point() and t.dim() == 0]
    return not numbers


def _untaped_box(sandbox: Sandbox, batch: Batch) -> LossBox:
    if sandbox.train_step is not None:
        with user_code(passing=()):  # a loop that cannot be run in this way still has its loss_fn
            return _hooked(sandbox, batch, _training_step(sandbox), "train_step")
        sandbox.control.poll()
    if sandbox.compute_loss is not None:
        compute = sandbox.compute_loss
        return _hooked(sandbox, batch, lambda b: compute(sandbox.model, b.raw, sandbox.loss_for_user()), "compute_loss")
    return plain_box(sandbox, batch)


def plain_box(sandbox: Sandbox, batch: Batch) -> LossBox:
    """Make a box of the model's output and loss_fn, or of a loss that the model returns, without the training step."""
    output = sandbox.forward(batch)
    if any(t.dim() == 0 for t in tensors_in(output) if t.is_floating_point()):
        taped = taped_loss(sandbox, batch, forms=(False,))
        if taped is not None:
            return _taped_box(sandbox, batch, taped)
    if sandbox.loss_fn is None and own_loss(output) is not None:
        raise NotApplicable("the model computes its own loss, and no recorded run says from what")
    numbers = [t for t in tensors_in(output) if t.is_floating_point() and t.dim() == 0]
    if numbers and sandbox.loss_fn is not None and not isinstance(sandbox.model, torch.jit.ScriptModule):
        return _hooked(sandbox, batch, lambda b: sandbox.loss_of(sandbox.forward(b), b), "loss_fn")
    sandbox.loss_choice(output, batch)
    return LossBox("loss_fn", detached(output), batch, sandbox.loss_of, sandbox.forward)


def _training_step(sandbox: Sandbox) -> Run:
    """Return the user's own step without its last act: the weights stay as they are."""
    sandbox.optimizer.step = lambda closure=None: closure() if closure is not None else None

    def run(batch: Batch) -> Any:
        assert sandbox.train_step is not None
        return sandbox.train_step(sandbox.model, batch.raw, sandbox.loss_for_user(), sandbox.optimizer)

    return run


def _hooked(sandbox: Sandbox, batch: Batch, run: Run, place: str) -> LossBox:
    """Exchange the answer of the last module that is called from outside of the model and matters to the loss.

    What an older or a frozen copy says without a gradient is part of the target, unless nothing else is said. Where the
    loss is computed inside the model, another output does not reach it; then one of the model's layers is exchanged.
    """
    said = called_outputs(sandbox, lambda: run(batch))
    found = [called for called in said if any(t.requires_grad for t in tensors_in(called.output))] or said
    boxes = [(_at_output(sandbox, batch, run, place, called), called) for called in reversed(found)]
    box, called = next((pair for pair in boxes if len(boxes) == 1 or _matters(pair[0])), boxes[0])
    if called.mixed or not _reaches(box, called):
        raise NotApplicable("the model computes its own loss, and no recorded run says from what")
    box.is_sole = len(boxes) == 1
    return box


def _at_output(sandbox: Sandbox, batch: Batch, run: Run, place: str, called: CalledOutput) -> LossBox:
    module = called.module

    def evaluate(answer: Any, on: Batch) -> Any:
        sandbox.control.poll()
        with giving(module, answer):
            return run(on)

    return LossBox(place, detached(called.output), batch, evaluate, lambda b: caught(module, lambda: run(b)))


def _matters(box: LossBox, surely: bool = False) -> bool:
    """Whether another answer gives another loss; one that refuses both may matter, but not surely."""
    losses = [(box.loss(path, output), box.loss(path, 2 * output + 1)) for path, output in box.heads.items()]
    return any(one != other and not (surely and math.isnan(one) and math.isnan(other)) for one, other in losses)


def _reaches(box: LossBox, called: CalledOutput) -> bool:
    """Whether an exchanged output comes to the loss at all: if not, a loss that stays the same says nothing.

    It does not where the loss is computed inside the model: then no gradient leads from it to what was exchanged.
    """
    if _matters(box, surely=True):
        return True
    refused = any(math.isnan(box.loss(path, output)) for path, output in box.heads.items())
    return not called.aside and (not called.reached or refused or _gradient_of(box) is not None)


def _gradient_of(box: LossBox) -> torch.Tensor | None:
    """Return the gradient of the loss at the first of the outputs that has one, be it zero."""
    found = (box.gradient(path, output)[1] for path, output in box.heads.items())
    return next((gradient for gradient in found if gradient is not None), None)


def _is_answer(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dim() > 0 and leaf.numel() > 0
