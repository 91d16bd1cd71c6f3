"""The loss sends no gradient to the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import as_far_as_it_runs
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.loss_family import recognize
from nbdebug.experiments.loss_of_outputs import box_at_head, open_box
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.loss import main_output, own_loss, total_of
from nbdebug.setup.nested import tensors_in

__all__ = ["LossGradient", "loss_gradient", "loss_not_differentiable"]


@dataclass(frozen=True)
class LossGradient:
    """Whether a gradient leaves the loss and reaches the model.

    `kind` is the type of what the loss returned, `numbers` how many numbers it holds. `cut` is the module, or the
    function of the loss, behind which nothing flows back; `flat` says that it flows but is zero everywhere.
    """

    kind: str
    numbers: int
    requires_grad: bool
    reaches_output: bool
    output_requires_grad: bool
    trainable: int
    flat: bool
    cut: str
    place: str


@probe
def loss_gradient(sandbox: Sandbox, trial: TrialRun) -> LossGradient:
    """Inspect the loss and trace its gradient to the outputs and the parameters."""
    with as_far_as_it_runs(trial):
        return _followed(sandbox)


def _followed(sandbox: Sandbox) -> LossGradient:
    sandbox.ready_to_train()
    trainable = [p for p in sandbox.model.parameters() if p.requires_grad]
    if not trainable:
        raise NotApplicable("no parameter of the model requires a gradient")
    if sandbox.train_step is not None and sandbox.compute_loss is None:
        raise NotApplicable("train_step computes the loss and its backward pass itself; see step-never-taken")
    watch = _Watch()
    with tapped(sandbox.model, after=watch.after):
        output, value = _raw(sandbox, sandbox.batch(), watch)
    predicted = main_output(output) if output is not None else None
    total = total_of(value)
    place = (
        "compute_loss" if sandbox.compute_loss is not None else "loss_fn" if sandbox.loss_fn is not None else "model"
    )
    reaches = isinstance(total, torch.Tensor) and total.requires_grad and _reaches(total, predicted, trainable)
    has_graph = predicted is not None and predicted.requires_grad
    return LossGradient(
        kind=type(value).__name__,
        numbers=int(total.numel()) if isinstance(total, torch.Tensor) else 0,
        requires_grad=isinstance(total, torch.Tensor) and total.requires_grad,
        reaches_output=reaches,
        output_requires_grad=has_graph,
        trainable=sum(p.numel() for p in trainable),
        flat=reaches and _is_flat(sandbox),
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


def _raw(sandbox: Sandbox, batch: Batch, watch: _Watch) -> tuple[Any, Any]:
    """Return the output and the loss just as the user's function returned it, be it a number or a tensor."""
    if sandbox.compute_loss is not None:
        value = sandbox.compute_loss(sandbox.model, batch.raw, sandbox.loss_for_user())
        return watch.output, value
    output = sandbox.forward(batch)
    if sandbox.loss_fn is None and (own := own_loss(output)) is not None:
        return output, own
    return output, sandbox.loss_choice(output, batch).function(output, batch.target)


def _reaches(loss: torch.Tensor, predicted: torch.Tensor | None, trainable: list[nn.Parameter]) -> bool:
    """Whether the gradient of the loss comes to any parameter; a fresh tensor with requires_grad=True has none."""
    gradients = torch.autograd.grad(loss.sum(), trainable, allow_unused=True, retain_graph=True)
    return any(gradient is not None for gradient in gradients)


def _is_flat(sandbox: Sandbox) -> bool:
    """Whether other outputs give another loss while the gradient is zero at all of them."""
    try:
        box = box_at_head(sandbox, open_box(sandbox, sandbox.batch()))
    except NotApplicable:
        return False
    names = {recognize(box, path).name for path in box.heads}
    return "flat" in names and names <= {"flat", "constant"}


@check(
    explains=(
        "untrained-parameters",
        "cannot-overfit-batch",
        "worse-than-baseline",
        "wrong-loss-for-task",
        "step-never-taken",
    )
)
def loss_not_differentiable(loss: LossGradient) -> Iterator[Finding]:
    """The loss sends no gradient to the model.

    nbdebug inspects the return value of the loss, traces the autograd graph back to the parameters, and evaluates the
    loss on synthetic outputs to see whether its gradient is nonzero.

    Why it matters: without a gradient nothing is learned. `backward()` may raise, or, if the loss was wrapped in a new
    tensor, silently do nothing.

    What to try: use only differentiable tensor operations between the outputs and the loss: no `.item()`, `.detach()`,
    `.data`, NumPy, argmax, rounding or comparison; reduce the loss to a scalar.
    """
    said = _what(loss)
    if said is not None:
        says, remedy = said
        yield Finding(
            says,
            where=loss.cut or loss.place,
            explains=("forward-fails",) if loss.numbers != 1 else (),
            evidence={
                "type of the loss": loss.kind,
                "numbers in it": loss.numbers,
                "requires a gradient": loss.requires_grad,
                "outputs require a gradient": loss.output_requires_grad,
                "parameters to train": loss.trainable,
                "threshold": "a scalar whose gradient reaches a parameter",
                "source": "37 reasons, 18",
            },
            remedies=(remedy,),
        )


def _what(loss: LossGradient) -> tuple[str, Remedy] | None:
    """Return the message and the fix, or None if the loss is differentiable."""
    if loss.numbers == 0:
        tensor = Remedy("Return the loss tensor.", "return loss")
        return f"The loss is a `{loss.kind}`, not a scalar tensor: `backward()` cannot run on it.", tensor
    soft = Remedy(
        "Use a differentiable loss.",
        "loss = nn.functional.cross_entropy(logits, y)",
        Patch("replace-loss", {"loss": "usual"}),
    )
    if not loss.reaches_output:
        if not loss.output_requires_grad and loss.cut not in ("loss_fn", "compute_loss"):
            keep = Remedy(
                "Keep the outputs in the autograd graph: no detach, .data, NumPy or no_grad in forward.",
                "return self.head(x)",
                Patch("keep-graph"),
            )
            return f"The outputs are detached in `{loss.cut}`: the loss cannot send a gradient to any parameter.", keep
        new = "a new" if loss.requires_grad else "a"
        kind = f"a Python `{loss.kind}`" if loss.kind in ("float", "int") else f"{new} `{loss.kind}` without `grad_fn`"
        return f"The loss is {kind}: none of the {loss.trainable:,} parameters receives a gradient from it.", soft
    if loss.numbers > 1:
        mean = Remedy("Reduce the loss to a scalar.", "loss = loss.mean()", Patch("reduce-loss"))
        return f"The loss has {loss.numbers} elements; `backward()` requires a scalar.", mean
    if loss.flat:
        return "The loss depends on the outputs, but its gradient is zero everywhere: it is piecewise constant.", soft
    return None
