"""The same seed, another result."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Repeats
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["not_reproducible"]


@check
def not_reproducible(
    repeats: Repeats, *, difference: float = 1e-4
) -> Iterator[Finding]:  # sums in another order differ by 1e-6 or so in single precision
    """The same seed gives another result every time.

    nbdebug takes the same few steps on two copies with every global seed set alike, and reads samples again on copies
    with every generator put back.

    Why it matters: when two runs with the same seed differ, no change to the model can be judged by comparing runs, and
    a failure cannot be called back.

    What to try: look for chance that no seed reaches: np.random.default_rng() and torch.Generator().seed() inside
    forward or __getitem__, the order of sets, the time. Seed a generator once and keep it.
    """
    numbers = {"threshold": difference, "source": "two runs with the same seed have to be equal up to rounding"}
    if repeats.loss_difference > difference:
        yield Finding(
            f"Two trainings of {repeats.steps} steps with the same seed differ: the loss by "
            f"{repeats.loss_difference:.2g}, {repeats.where} by {repeats.weight_difference:.2g} of its size.",
            where=repeats.where or "model",
            severity="suspect",
            evidence={"loss": repeats.loss_difference, "weights": repeats.weight_difference, **numbers},
            remedies=(Remedy("Draw from PyTorch's own generator.", "noise = torch.randn_like(x)"),),
        )
    elif repeats.restless_samples:
        yield Finding(
            f"{repeats.restless_samples} of {repeats.samples} samples differ at every reading, with all seeds alike.",
            where="loader",
            severity="suspect",
            evidence={"samples": repeats.restless_samples, "read": repeats.samples, **numbers},
            remedies=(
                Remedy("Seed a generator once and keep it.", "self.rng = np.random.default_rng(seed)  # in __init__"),
            ),
        )
