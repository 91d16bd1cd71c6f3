"""Patches of the loss and of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.fixes import patch
from nbdebug.fixes.calls import behind_model
from nbdebug.fixes.optimizing import add_to_optimizer
from nbdebug.fixes.places import last_layer
from nbdebug.sandbox import Sandbox
from nbdebug.setup.loss import ClassIdCrossEntropy, ShapedLoss, infer_loss, main_output, total_of

__all__: list[str] = []

MAX_CLASSES = 1000  # largest number of outputs that a last layer is widened to

_LOSSES: dict[str, Callable[[], nn.Module]] = {
    "cross-entropy": ClassIdCrossEntropy,
    "binary with logits": lambda: ShapedLoss(nn.BCEWithLogitsLoss(), reshape=True),
    "binary": lambda: ShapedLoss(nn.BCELoss(), reshape=True),
    "squared": lambda: ShapedLoss(nn.MSELoss(), reshape=True),
}


@patch("shares")
def replace_loss(sandbox: Sandbox, *, loss: str) -> None:
    """Train with a built-in PyTorch loss, or with the one inferred from outputs and targets (`usual`).

    For cross-entropy, a last layer with one output is replaced with one that has an output per class.
    """
    function = _LOSSES[loss]() if loss != "usual" else _usual(sandbox)
    is_widened = loss == "cross-entropy" and _widened(sandbox)

    def replaced(output: Any, target: Any) -> Any:
        scores = output if isinstance(output, torch.Tensor) else main_output(output)
        return function(scores, target.reshape(len(target)) if is_widened else target)

    sandbox.loss_fn = replaced


@patch("answers")
def plain_loss(sandbox: Sandbox) -> None:
    """Train with the usual loss of outputs and targets alone, without the other terms of `compute_loss`."""
    if sandbox.compute_loss is None:
        raise NotApplicable("no compute_loss was passed")
    sandbox.compute_loss = None
    replace_loss(sandbox, loss="usual")


def _widened(sandbox: Sandbox) -> bool:
    """Replace a last layer that has one output with one that has an output per class; return whether it was needed."""
    with torch.no_grad(), sandbox.mode(training=False):
        output = main_output(sandbox.forward(sandbox.batch()))
    if output is None or output.dim() > 2 or (output.dim() == 2 and output.shape[1] > 1):
        return False
    labels = torch.cat([batch.target.flatten() for batch in sandbox.batches(16)])
    classes = int(labels.max()) + 1
    head = last_layer(sandbox)
    if bool((labels != labels.long()).any()) or bool((labels < 0).any()) or not 1 < classes <= MAX_CLASSES:
        raise NotApplicable("the last layer has one output, and the targets are not class indices")
    if not isinstance(head, nn.Linear) or head.out_features != 1 or output.dim() != 2:
        raise NotApplicable("the last layer has one output and cannot be widened")
    made = nn.Linear(head.in_features, classes, head.bias is not None).to(head.weight)
    path = next(name for name, module in sandbox.model.named_modules() if module is head)
    if not path:
        raise NotApplicable("the model is a single layer")
    sandbox.model.set_submodule(path, made)
    add_to_optimizer(sandbox, list(made.parameters()))
    return True


@torch.no_grad()
def _usual(sandbox: Sandbox) -> Callable[..., Any]:
    with sandbox.mode(training=False):
        batch = sandbox.batch()
        return infer_loss(sandbox.forward(batch), batch.target, batch.has_target).function


@patch("shares")
def put_behind_model(sandbox: Sandbox, *, function: str, dim: int = 1) -> None:
    """Apply a softmax, a sigmoid or a logarithm to the outputs before the loss."""
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "log-softmax": lambda scores: scores.log_softmax(dim),
        "softmax": lambda scores: scores.softmax(dim),
        "sigmoid": torch.sigmoid,
        "log": lambda p: p.clamp_min(1e-8).log(),
    }
    behind_model(sandbox, functions[function])


@patch("answers")
def negate_loss(sandbox: Sandbox) -> None:
    """Negate the loss."""
    _around_loss(sandbox, lambda loss, output, target: -loss)


@patch("check")
def average_loss(sandbox: Sandbox) -> None:
    """Divide a loss that is summed over the batch by the batch size."""
    _around_loss(sandbox, lambda loss, output, target: loss / max(len(target), 1))


@patch()
def reduce_loss(sandbox: Sandbox) -> None:
    """Take the mean of a loss with several elements."""
    _around_loss(sandbox, lambda loss, output, target: loss.mean())


@patch("answers")
def shape_target(sandbox: Sandbox) -> None:
    """Reshape the target to the shape of the outputs."""
    inner = _loss_given(sandbox)

    def shaped(output: Any, target: Any) -> Any:
        if target.numel() != output.numel():
            raise NotApplicable(f"targets {tuple(target.shape)} cannot be reshaped to {tuple(output.shape)}")
        return inner(output, target.reshape(output.shape))

    sandbox.loss_fn = shaped


@patch("classes")
def weigh_classes(sandbox: Sandbox) -> None:
    """Weight each class by its inverse frequency in some batches."""
    labels = torch.cat([batch.target.flatten() for batch in sandbox.batches(16)]).long()
    with torch.no_grad(), sandbox.mode(training=False):
        output = sandbox.forward(sandbox.batch())
    if not isinstance(output, torch.Tensor) or bool((labels < 0).any()):
        raise NotApplicable("the classes cannot be inferred from outputs and labels")
    several = output.dim() > 1 and output.shape[1] > 1
    counts = torch.bincount(labels, minlength=output.shape[1] if several else 2).clamp_min(1).to(output.dtype)
    if several:
        sandbox.loss_fn = nn.CrossEntropyLoss(weight=(counts.sum() / (len(counts) * counts)).to(output.device))
    else:
        rarity = (counts[0] / counts[1]).to(output.device)
        sandbox.loss_fn = ShapedLoss(nn.BCEWithLogitsLoss(pos_weight=rarity), reshape=True)


def _loss_given(sandbox: Sandbox) -> Callable[..., Any]:
    if sandbox.loss_fn is None or sandbox.compute_loss is not None:
        raise NotApplicable("no loss_fn(output, target) was passed")
    return sandbox.loss_fn


def _around_loss(sandbox: Sandbox, change: Callable[[torch.Tensor, Any, Any], torch.Tensor]) -> None:
    """Change the value of the loss, or of `compute_loss` where that is given."""
    compute = sandbox.compute_loss
    if compute is not None:

        def custom(model: Any, batch: Any, loss_fn: Any) -> Any:
            wrapped = sandbox.setup.wrap(batch)
            return change(_total(compute(model, batch, loss_fn)), None, range(wrapped.size))

        sandbox.compute_loss = custom
        return
    inner = _loss_given(sandbox)

    def changed(output: Any, target: Any) -> Any:
        return change(_total(inner(output, target)), output, target)

    sandbox.loss_fn = changed


def _total(value: Any) -> torch.Tensor:
    total = value if isinstance(value, torch.Tensor) else total_of(value)
    if total is None:
        raise NotApplicable("the loss does not return a tensor")
    return total
