"""The loss as a function of what the model gives, and of nothing else.

Whether the loss is a plain function, a function of the user's that runs the model, a whole training step, or part of
the model: the model's answer is exchanged for one that the experiment makes up, and the loss that comes out is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.subject import Batch
from nbdebug.subject.loss import main_output, own_loss, total_of
from nbdebug.subject.nest import Path, at, leaves, map_leaves, replace_at
from nbdebug.twin import Twin
from nbdebug.twin.taps import tapped, tensors_in

__all__ = ["LossBox", "open_box"]

MOST_HEADS = 6

Evaluate = Callable[[Any, Batch], Any]


@dataclass
class LossBox:
    """A loss that can be asked: what would you say if the model had answered this?

    `place` says where the loss is written: loss_fn, compute_loss, train_step, or the model itself; `answer` runs the
    model on a batch and gives what the loss takes from it.
    """

    place: str
    output: Any
    batch: Batch
    evaluate: Evaluate
    answer: Callable[[Batch], Any]

    @property
    def heads(self) -> dict[Path, torch.Tensor]:
        """The tensors of the model's answer that a loss could read, the main one first."""
        found = [
            (path, leaf)
            for path, leaf in leaves(self.output)
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.dim() > 0 and leaf.numel() > 0
        ]
        main = main_output(self.output)
        return dict(sorted(found, key=lambda item: item[1] is not main)[:MOST_HEADS])

    def loss(self, path: Path, values: torch.Tensor, batch: Batch | None = None) -> float:
        """Give the loss if the tensor at this path were these values; NaN where the loss refuses them."""
        try:
            leaf = values.detach().clone().requires_grad_(True)  # a training step goes backward through it
            return float(self._ask(path, leaf, batch).detach())
        except NotApplicable:
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
        except NotApplicable:
            raise
        except Exception:
            return float("nan"), None
        return float(loss.detach()), leaf.grad.detach().double() if leaf.grad is not None else None

    def _ask(self, path: Path, values: torch.Tensor, batch: Batch | None) -> torch.Tensor:
        torch.manual_seed(0)  # noise inside the loss must be the same each time
        answer = replace_at(self.output, path, values) if path else values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user has seen them once, with their own outputs
            loss = total_of(self.evaluate(answer, batch if batch is not None else self.batch))
        if loss is None:
            raise NotApplicable("the loss is not a number")
        one: torch.Tensor = loss.mean()  # one that was left unreduced is judged by its mean
        return one


def open_box(twin: Twin, batch: Batch) -> LossBox:
    """Find out how the loss is computed here, and make it a function of the model's answer."""
    if twin.train_step is not None:
        try:
            return _hooked(twin, batch, _training_step(twin), "train_step")
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
    module, output = _outlet(twin, lambda: run(batch))

    def evaluate(answer: Any, on: Batch) -> Any:
        twin.control.poll()
        with _giving(module, answer):
            return run(on)

    return LossBox(place, _detached(output), batch, evaluate, lambda b: _caught(module, lambda: run(b)))


def _outlet(twin: Twin, call: Callable[[], Any]) -> tuple[nn.Module, Any]:
    """Give the module that the loss takes its answer from: the last one called from outside of the model."""
    depth, ended = [0], list[tuple[nn.Module, Any]]()

    def before(path: str, module: nn.Module, inputs: Any) -> None:
        depth[0] += 1

    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        depth[0] -= 1
        if depth[0] == 0 and any(t.is_floating_point() and t.dim() > 0 for t in tensors_in(output)):
            ended.append((module, output))

    failed: Exception | None = None
    try:
        with tapped(twin.model, after=after, before=before):
            call()
    except Exception as error:  # a loss that refuses the model's answer can still be asked about others
        failed = error
    if not ended:
        raise failed or NotApplicable("the loss is computed without a call of the model")
    if sum(module is ended[-1][0] for module, _ in ended) > 1:
        raise NotApplicable("the loss runs the model several times, so it is no function of one answer")
    return ended[-1]


class _Seen(BaseException):
    """Ends a run of the user's code as soon as the answer is there; no handler of theirs catches it."""


def _caught(module: nn.Module, call: Callable[[], Any]) -> Any:
    """Give what this module answers while the call runs; what the loss would make of it is not waited for."""
    seen: list[Any] = []

    def stop(_: nn.Module, args: Any, output: Any) -> None:
        seen.append(output)
        raise _Seen

    handle = module.register_forward_hook(stop)
    try:
        call()
    except _Seen:
        pass
    finally:
        handle.remove()
    return seen[-1] if seen else None


@contextmanager
def _giving(module: nn.Module, answer: Any) -> Iterator[None]:
    """Let the module answer with this, whatever it is asked, and without computing anything."""
    if isinstance(module, torch.jit.ScriptModule):
        handle = module.register_forward_hook(lambda *_: answer)
        try:
            yield
        finally:
            handle.remove()
        return
    before = module.__dict__.get("forward")
    module.__dict__["forward"] = lambda *args, **kwargs: answer
    try:
        yield
    finally:
        if before is None:
            del module.__dict__["forward"]
        else:
            module.__dict__["forward"] = before


def _inside(twin: Twin, batch: Batch) -> LossBox:
    """Make a box of a model that returns its own loss, by exchanging what its last layer gives."""
    predicted, found = main_output(_seeded(twin, batch)), list[tuple[nn.Module, Path, Any]]()

    def after(path: str, module: nn.Module, inputs: Any, given: Any) -> None:
        for place, leaf in leaves(given):
            if isinstance(leaf, torch.Tensor) and path != "model" and _same(leaf, predicted):
                found.append((module, place, given))

    with tapped(twin.model, after=after):
        _seeded(twin, batch)
    if predicted is None or predicted.dim() == 0 or not found:
        raise NotApplicable("the model computes its own loss, and no module gives what it is computed from")
    module, place, given = found[0]

    def evaluate(answer: Any, on: Batch) -> Any:
        handle = module.register_forward_hook(lambda *_: replace_at(given, place, answer))
        try:
            return own_loss(twin.forward(on))
        finally:
            handle.remove()

    def answer(on: Batch) -> Any:
        return at(_caught(module, lambda: twin.forward(on)), place)

    return LossBox("model", at(_detached(given), place), batch, evaluate, answer)


def _seeded(twin: Twin, batch: Batch) -> Any:
    torch.manual_seed(0)
    return twin.forward(batch)


def _same(leaf: torch.Tensor, predicted: torch.Tensor | None) -> bool:
    return predicted is not None and leaf.shape == predicted.shape and torch.equal(leaf, predicted)


def _detached(output: Any) -> Any:
    return map_leaves(lambda _, leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, output)
