"""A sequence model that sees the future."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import FutureInfluence
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["causal_leak"]


@check(explains=("initial-loss-off", "loss-metric-disagree"))
def causal_leak(future: FutureInfluence, *, influence: float = 1e-3) -> Iterator[Finding]:  # exactly 0 when masked
    """The model sees the future steps that it has to predict.

    Where the targets are the inputs shifted by one step, nbdebug changes the later part of the sequences and compares
    the outputs for the earlier part, in eval mode, module by module.

    Why it matters: the loss quickly falls to almost zero, because the target is part of the input. At generation time
    there is no target to copy, and the outputs are useless.

    What to try: mask future positions in the attention named (is_causal, an upper-triangular mask), pad convolutions on
    the left only, use unidirectional recurrent layers; shift the targets by one step.
    """
    if future.unshifted:
        yield Finding(
            f"The targets equal the inputs ({future.agreement:.0%} of `{future.key}` agree) instead of the next step, "
            "so the causal model only learns to copy its input.",
            where=future.key,
            severity="suspect",
            evidence={
                "agreement": future.agreement,
                "threshold": 0.95,
                "source": "next-step targets are shifted by one step",
            },
            remedies=(Remedy("Shift the targets by one step.", "inputs, targets = tokens[:, :-1], tokens[:, 1:]"),),
        )
        return
    threshold = max(influence, 10 * future.noise)
    if future.influence <= threshold:
        return
    yield Finding(
        f"The model is not causal: changing later steps of `{future.key}` changes earlier outputs by up to "
        f"{future.influence:.1%}, first {future.place or 'in the model'}. The targets are the next steps "
        f"({future.agreement:.0%} agree).",
        where=future.first or "model",
        evidence={
            "influence": future.influence,
            "noise": future.noise,
            "threshold": threshold,
            "source": "exactly 0 with a causal mask",
        },
        remedies=(
            Remedy("Apply a causal mask.", "F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
            Remedy("Pad convolutions on the left only.", "F.pad(x, (kernel_size - 1, 0))"),
        ),
        exhibit=Bars(("future changed", "same input again"), (future.influence, future.noise), log=True),
    )
