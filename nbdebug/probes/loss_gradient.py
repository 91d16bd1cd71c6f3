"""Does a gradient leave the loss?"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LossGradient, TrialRun
from nbdebug.probes.first_pass import as_far_as_it_runs
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.loss import main_output, own_loss, total_of
from nbdebug.twin import Twin
from nbdebug.twin.loss_box import open_box
from nbdebug.twin.loss_family import recognise
from nbdebug.twin.taps import tapped, tensors_in

__all__ = ["loss_gradient"]


@probe
def loss_gradient(twin: Twin, trial: TrialRun) -> LossGradient:
    """Inspect the loss and trace its gradient to the outputs and the parameters."""
    with as_far_as_it_runs(trial):
        return _followed(twin)


def _followed(twin: Twin) -> LossGradient:
    twin.ready_to_train()
    trainable = [p for p in twin.model.parameters() if p.requires_grad]
    if not trainable:
        raise NotApplicable("no parameter of the model requires a gradient")
    if twin.train_step is not None and twin.compute_loss is None:
        raise NotApplicable("train_step computes the loss and its backward pass itself; see step-never-taken")
    watch = _Watch()
    with tapped(twin.model, after=watch.after):
        output, value = _raw(twin, twin.batch(), watch)
    predicted = main_output(output) if output is not None else None
    total = total_of(value)
    place = "compute_loss" if twin.compute_loss is not None else "loss_fn" if twin.loss_fn is not None else "model"
    reaches = isinstance(total, torch.Tensor) and total.requires_grad and _reaches(total, predicted, trainable)
    has_graph = predicted is not None and predicted.requires_grad
    return LossGradient(
        kind=type(value).__name__,
        numbers=int(total.numel()) if isinstance(total, torch.Tensor) else 0,
        requires_grad=isinstance(total, torch.Tensor) and total.requires_grad,
        reaches_output=reaches,
        output_requires_grad=has_graph,
        trainable=sum(p.numel() for p in trainable),
        flat=reaches and _is_flat(twin),
        cut="" if reaches else place if has_graph or predicted is None else watch.cut or "model",
        place=place,
    )


class _Watch:
    """Which module was the first to give something without a gradient, though it had something to train."""

    def __init__(self) -> None:
        self.cut = ""
        self.output: Any = None

    def after(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        """Compare what goes in with what comes out."""
        self.output = output
        if not torch.is_grad_enabled():
            return  # it was switched off by whoever called this module, so the cut is further out
        given = [t for t in tensors_in(output) if t.is_floating_point()]
        fed = any(t.requires_grad for t in tensors_in(inputs)) or any(p.requires_grad for p in module.parameters())
        if fed and given and not any(t.requires_grad for t in given):
            self.cut = self.cut or path
        elif any(t.requires_grad for t in given):
            self.cut = ""  # it went on with something that can be trained


def _raw(twin: Twin, batch: Batch, watch: _Watch) -> tuple[Any, Any]:
    """Give the output and the loss just as the user's function returned it, be it a number or a tensor."""
    if twin.compute_loss is not None:
        value = twin.compute_loss(twin.model, batch.raw, twin.loss_for_user())
        return watch.output, value
    output = twin.forward(batch)
    if twin.loss_fn is None and (own := own_loss(output)) is not None:
        return output, own
    return output, twin.loss_choice(output, batch).function(output, batch.target)


def _reaches(loss: torch.Tensor, predicted: torch.Tensor | None, trainable: list[nn.Parameter]) -> bool:
    """Whether the gradient of the loss comes to any parameter; a fresh tensor with requires_grad=True has none."""
    gradients = torch.autograd.grad(loss.sum(), trainable, allow_unused=True, retain_graph=True)
    return any(gradient is not None for gradient in gradients)


def _is_flat(twin: Twin) -> bool:
    """Whether other outputs give another loss while the gradient is zero at all of them."""
    try:
        box = open_box(twin, twin.batch())
    except NotApplicable:
        return False
    names = {recognise(box, path).name for path in box.heads}
    return "flat" in names and names <= {"flat", "constant"}
