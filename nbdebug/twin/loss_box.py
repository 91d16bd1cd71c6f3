"""The loss as a function of what the model gives, and of nothing else.

Whether the loss is a plain function, a function of the user's that runs the model, a whole training step, or part of
the model: the model's answer is exchanged for one that the experiment makes up, and the loss that comes out is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.errors import Cancelled, NbdebugError, NotApplicable, OutOfTime
from nbdebug.subject import Batch
from nbdebug.subject.drawing import seed_torch
from nbdebug.subject.loss import main_output, own_loss, total_of
from nbdebug.subject.nest import Path, at, leaves, map_leaves, name_of, replace_at
from nbdebug.twin import Twin
from nbdebug.twin.outlets import caught, giving, outlets
from nbdebug.twin.taps import tapped, tensors_in

__all__ = ["LossBox", "head_name", "open_box"]

MOST_HEADS = 6
LAST_LAYERS = 4  # of a model with its own loss, tried from the last

Evaluate = Callable[[Any, Batch], Any]


@dataclass
class LossBox:
    """A loss that can be asked: what would you say if the model had answered this?

    `place` says where the loss is written: loss_fn, compute_loss, train_step, or the model itself; `answer` runs the
    model on a batch and gives what the loss takes from it; `is_sole` says that nothing else was taken.
    """

    place: str
    output: Any
    batch: Batch
    evaluate: Evaluate
    answer: Callable[[Batch], Any]
    is_sole: bool = True

    @property
    def heads(self) -> dict[Path, torch.Tensor]:
        """The tensors of the model's answer that a loss could read, the main one first."""
        found = [(path, leaf) for path, leaf in leaves(self.output) if _is_answer(leaf)]
        main = main_output(self.output)
        return dict(sorted(found, key=lambda item: item[1] is not main)[:MOST_HEADS])

    def loss(self, path: Path, values: torch.Tensor, batch: Batch | None = None) -> float:
        """Give the loss if the tensor at this path were these values; NaN where the loss refuses them."""
        try:
            leaf = values.detach().clone().requires_grad_(True)  # a training step goes backward through it
            return float(self._ask(path, leaf, batch).detach())
        except NbdebugError:
            raise
        except Exception:
            return float("nan")

    def gradient(self, path: Path, values: torch.Tensor) -> tuple[float, torch.Tensor | None]:
        """Give the loss and its gradient for these values; None where nothing flows back or the loss refuses."""
        leaf = values.detach().clone().requires_grad_(True)
        try:
            loss = self._ask(path, leaf, None)
            if leaf.grad is None and loss.requires_grad:
                (leaf.grad,) = torch.autograd.grad(loss, leaf, allow_unused=True)
        except NbdebugError:
            raise
        except Exception:
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


def open_box(twin: Twin, batch: Batch) -> LossBox:
    """Find out how the loss is computed here, and make it a function of the model's answer."""
    if twin.train_step is not None:
        try:
            return _hooked(twin, batch, _training_step(twin), "train_step")
        except (Cancelled, OutOfTime):
            raise
        except Exception:
            twin.control.poll()  # a loop that cannot be run in this way still has its loss_fn
    if twin.compute_loss is not None:
        compute = twin.compute_loss
        return _hooked(twin, batch, lambda b: compute(twin.model, b.raw, twin.loss_for_user()), "compute_loss")
    output = twin.forward(batch)
    if twin.loss_fn is None and own_loss(output) is not None:
        return _inside(twin, batch)
    twin.loss_choice(output, batch)
    return LossBox("loss_fn", _detached(output), batch, twin.loss_of, twin.forward)


def _training_step(twin: Twin) -> Callable[[Batch], Any]:
    """Give the user's own step without its last act: the weights stay as they are."""
    twin.optimizer.step = lambda closure=None: closure() if closure is not None else None

    def run(batch: Batch) -> Any:
        assert twin.train_step is not None
        return twin.train_step(twin.model, batch.raw, twin.loss_for_user(), twin.optimizer)

    return run


def _hooked(twin: Twin, batch: Batch, run: Callable[[Batch], Any], place: str) -> LossBox:
    """Exchange the answer of the last module that is called from outside of the model and matters to the loss.

    What an older or a frozen copy says without a gradient is part of the target, unless nothing else is said.
    """
    said = outlets(twin, lambda: run(batch))
    found = [(m, out) for m, out in said if any(t.requires_grad for t in tensors_in(out))] or said
    boxes = [_at_outlet(twin, batch, run, place, module, output) for module, output in reversed(found)]
    box = next((box for box in boxes if len(boxes) == 1 or _matters(box)), boxes[0])
    box.is_sole = len(boxes) == 1
    return box


def _at_outlet(
    twin: Twin, batch: Batch, run: Callable[[Batch], Any], place: str, module: nn.Module, output: Any
) -> LossBox:
    def evaluate(answer: Any, on: Batch) -> Any:
        twin.control.poll()
        with giving(module, answer):
            return run(on)

    return LossBox(place, _detached(output), batch, evaluate, lambda b: caught(module, lambda: run(b)))


def _matters(box: LossBox) -> bool:
    """Whether another answer gives another loss."""
    return any(box.loss(path, output) != box.loss(path, 2 * output + 1) for path, output in box.heads.items())


def _inside(twin: Twin, batch: Batch) -> LossBox:
    """Make a box of a model that returns its own loss, by exchanging what one of its last layers gives.

    The layer that gives the prediction is taken, or else the last one whose answer matters to the loss.
    """
    predicted, calls = main_output(_seeded(twin, batch)), list[_Call]()

    def after(path: str, module: nn.Module, inputs: Any, given: Any) -> None:
        floats = [(place, leaf) for place, leaf in leaves(given) if _is_answer(leaf)]
        same = [place for place, leaf in floats if _same(leaf, predicted)]
        if floats and path != "model" and (same or not any(module.children())):
            calls.append(_Call(module, same[0] if same else floats[0][0], given, bool(same)))

    with tapped(twin.model, after=after):
        _seeded(twin, batch)
    once = [call for call in calls if sum(other.module is call.module for other in calls) == 1]
    likely = [*[call for call in once if call.exact][:1], *reversed(once[-LAST_LAYERS:])]
    boxes = (_at_layer(twin, batch, call) for call in likely)
    box = next((box for box in boxes if _matters(box)), None)
    if box is None:
        raise NotApplicable("the model computes its own loss, and no module returns its inputs")
    return box


@dataclass
class _Call:
    """A call of a module inside of the model: the place of a tensor in what it gave, and if that is the prediction."""

    module: nn.Module
    place: Path
    given: Any
    exact: bool


def _at_layer(twin: Twin, batch: Batch, call: _Call) -> LossBox:
    def evaluate(answer: Any, on: Batch) -> Any:
        handle = call.module.register_forward_hook(lambda *_: replace_at(call.given, call.place, answer))
        try:
            return own_loss(twin.forward(on))
        finally:
            handle.remove()

    def answer(on: Batch) -> Any:
        return at(caught(call.module, lambda: twin.forward(on)), call.place)

    return LossBox("model", at(_detached(call.given), call.place), batch, evaluate, answer)


def _is_answer(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dim() > 0 and leaf.numel() > 0


def _seeded(twin: Twin, batch: Batch) -> Any:
    seed_torch(0)
    return twin.forward(batch)


def _same(leaf: torch.Tensor, predicted: torch.Tensor | None) -> bool:
    return predicted is not None and leaf.shape == predicted.shape and torch.equal(leaf, predicted)


def _detached(output: Any) -> Any:
    return map_leaves(lambda _, leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, output)
