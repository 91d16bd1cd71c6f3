"""A model that sees what it must predict."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import FutureInfluence
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["causal_leak"]


@check(explains=("initial-loss-off", "loss-metric-disagree"))
def causal_leak(future: FutureInfluence, *, influence: float = 1e-3) -> Iterator[Finding]:  # exactly 0 when masked
    """A model that predicts the next step can see it.

    Where the targets are the inputs one step later, nbdebug changes the later part of the sequences and looks at what
    the model says about the earlier part, in eval mode, module by module.

    Why it matters: the loss falls quickly to almost nothing, because the answer is among the inputs. When the model is
    used to continue a sequence there is no answer to copy, and it gives nonsense.

    What to try: mask the future in the attention named (is_causal, an upper-triangular mask), pad convolutions on the
    left only, use recurrent layers in one direction; shift the targets by one step.
    """
    if future.unshifted:
        yield Finding(
            f"The targets are the inputs themselves ({future.agreement:.0%} of {future.key} agree), not the next step; "
            "the model sees no future, so it has to copy what it is given.",
            where=future.key,
            severity="suspect",
            evidence={"agreement": future.agreement, "threshold": 0.95, "source": "a next step is not the step itself"},
            remedies=(Remedy("Shift the targets by one step.", "inputs, targets = tokens[:, :-1], tokens[:, 1:]"),),
        )
        return
    threshold = max(influence, 10 * future.noise)
    if future.influence <= threshold:
        return
    yield Finding(
        f"Changing only later steps of {future.key} changes what is said about earlier ones by up to "
        f"{future.influence:.1%} of its size, first {future.place or 'in the model'}; the targets are the next steps "
        f"({future.agreement:.0%} agree).",
        where=future.first or "model",
        evidence={
            "influence": future.influence,
            "noise": future.noise,
            "threshold": threshold,
            "source": "behind a causal mask the influence of the future is exactly 0",
        },
        remedies=(
            Remedy("Mask the future.", "F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
            Remedy("Pad a convolution on the left only.", "F.pad(x, (kernel_size - 1, 0))"),
        ),
        exhibit=Bars(("changed by the future", "changed by repeating"), (future.influence, future.noise), log=True),
    )
