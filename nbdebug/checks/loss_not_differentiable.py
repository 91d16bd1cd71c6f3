"""The loss sends no gradient to the model."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import LossGradient
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["loss_not_differentiable"]


@check(
    explains=(
        "untrained-parameters",
        "batch-not-memorised",
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
