"""Runs with the same seed give different results."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Repeats
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["not_reproducible"]


@check
def not_reproducible(
    repeats: Repeats, *, difference: float = 1e-4
) -> Iterator[Finding]:  # summing in another order changes float32 results by about 1e-6
    """Runs with the same seed give different results.

    nbdebug takes the same few steps on two copies with every global seed set to the same value, and re-reads samples on
    copies with the state of every RNG restored.

    Why it matters: when two runs with the same seed differ, no change to the model can be judged by comparing runs, and
    a failure cannot be reproduced.

    What to try: look for randomness that no seed controls: `np.random.default_rng()` and `torch.Generator().seed()`
    inside `forward` or `__getitem__`, the iteration order of sets, the time. Create a seeded generator once and reuse
    it.
    """
    numbers = {"threshold": difference, "source": "two runs with the same seed must agree up to rounding"}
    if repeats.loss_difference > difference:
        yield Finding(
            f"Two runs of {repeats.steps} steps with the same seed differ by {repeats.loss_difference:.2g} in the loss "
            f"and by {repeats.weight_difference:.2g} (relative) in `{repeats.where}`.",
            where=repeats.where or "model",
            severity="suspect",
            evidence={"loss": repeats.loss_difference, "weights": repeats.weight_difference, **numbers},
            remedies=(Remedy("Use PyTorch's global RNG.", "noise = torch.randn_like(x)"),),
        )
    elif repeats.restless_samples:
        yield Finding(
            f"{repeats.restless_samples} of {repeats.samples} samples change on every read, with all global seeds "
            "fixed.",
            where="loader",
            severity="suspect",
            evidence={"samples": repeats.restless_samples, "read": repeats.samples, **numbers},
            remedies=(
                Remedy(
                    "Create one seeded generator and reuse it.", "self.rng = np.random.default_rng(seed)  # in __init__"
                ),
            ),
        )
