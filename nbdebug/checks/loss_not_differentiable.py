"""A loss that no gradient leaves."""

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
    """No gradient comes from the loss to the model.

    nbdebug looks at what the loss returns, follows it back to the parameters, and hands it made-up outputs to see
    whether a gradient that flows is anything but zero.

    Why it matters: without a gradient nothing is learned. `backward()` may raise, or, if the loss was wrapped into a
    new tensor, do nothing at all without a word.

    What to try: keep everything between the outputs and the loss as tensor operations: no .item(), .detach(), .data,
    NumPy, no argmax, rounding or comparison; reduce the loss to one number.
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
                "threshold": "one number whose gradient reaches a parameter",
                "source": "37 reasons, 18",
            },
            remedies=(remedy,),
        )


def _what(loss: LossGradient) -> tuple[str, Remedy] | None:
    """Say what is wrong with it, and what to write in its place."""
    if loss.numbers == 0:
        tensor = Remedy("Return the tensor of the loss.", "return loss")
        return f"The loss is a {loss.kind} and not a number; nothing can go backward from it.", tensor
    soft = Remedy(
        "Use a loss that changes smoothly with the outputs.",
        "loss = nn.functional.cross_entropy(logits, y)",
        Patch("replace-loss", {"loss": "usual"}),
    )
    if not loss.reaches_output:
        if not loss.output_requires_grad and loss.cut not in ("loss_fn", "compute_loss"):
            keep = Remedy(
                "Keep the outputs in the graph: no detach, .data, NumPy or no_grad in the forward.",
                "return self.head(x)",
                Patch("keep-graph"),
            )
            return f"The outputs carry no gradient: it is cut in {loss.cut}, so the loss cannot train anything.", keep
        new = ", being a new tensor," if loss.requires_grad else ""
        kind = f"a Python {loss.kind}" if loss.kind in ("float", "int") else f"a {loss.kind}{new} without a way back"
        return f"The loss is {kind}: none of the {loss.trainable:,} parameters gets a gradient from it.", soft
    if loss.numbers > 1:
        mean = Remedy("Reduce the loss to one number.", "loss = loss.mean()", Patch("reduce-loss"))
        return f"The loss holds {loss.numbers} numbers; backward() needs one.", mean
    if loss.flat:
        return "The loss changes with the outputs, but its gradient is zero everywhere: it goes in steps.", soft
    return None
