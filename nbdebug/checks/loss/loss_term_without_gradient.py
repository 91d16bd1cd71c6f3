"""A term of the loss that no trained parameter affects."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["loss_term_without_gradient"]


@check(explains=("loss-terms-unbalanced",))
def loss_term_without_gradient(operands: LossOperands) -> Iterator[Finding]:
    """A term of the loss compares outputs of a network, and none of its arguments has a gradient.

    nbdebug records one run of your loss and walks back from its value over the sums. A loss function whose result is
    added to the others, and whose arguments were all computed without a gradient, trains nothing.

    Why it matters: the loss looks complete and the other terms train, so nothing fails. Typical are a distillation
    term that compares the teacher with itself, and predictions that were detached once too often.

    What to try: pass the outputs of the network that is trained as the first argument of that loss function.
    """
    for term in operands.constant[:1]:
        yield Finding(
            f"`{term.op}` is added to the loss, but none of its arguments has a gradient: this term trains nothing.",
            where=operands.place,
            severity="suspect",
            evidence={
                "loss function": term.op,
                "arguments computed by a network": term.arguments,
                "terms without a gradient": len(operands.constant),
                "threshold": "no argument with a gradient, beside terms that have one",
                "source": "autograd: a value without a gradient adds a constant to the loss",
            },
            remedies=(
                Remedy(
                    "Compare the outputs of the network that is trained.",
                    "with torch.no_grad():\n    wanted = teacher(x)\nterm = loss_function(student(x), wanted)",
                ),
            ),
        )
