"""Data and noise that are mixed by factors that do not belong together."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["noise_schedule_inconsistent"]


@check
def noise_schedule_inconsistent(
    operands: LossOperands,
    *,
    levels: int = 4,  # different noise levels, so that the relation of both factors is none by chance
    spread: float = 0.1,  # between the lowest and the highest factor; below it, all relations look alike
) -> Iterator[Finding]:
    """A diffusion model's noise is scaled by a variance instead of its square root.

    nbdebug records one run of your loss and looks for the sum of data and drawn noise, each with a factor for each
    sample. It reports factors a and b for which a² + b or a + b² is 1 for every sample: one of both is a variance.

    Why it matters: the square root is missing. The noisy samples have less noise than the step says, and the sampler,
    which starts from pure noise, asks for inputs that the network never saw.

    What to try: `x_t = sqrt(alpha_bar) * x + sqrt(1 - alpha_bar) * noise`.
    """
    for found in operands.schedules:
        is_wrong = found.relation in ("a² + b", "a + b²") and found.levels >= levels
        if not is_wrong or found.highest - found.lowest <= spread:
            continue
        missing = "noise" if found.relation == "a² + b" else "data"
        yield Finding(
            f"Data and noise are mixed by factors a and b with {found.relation} = 1: the square root is missing at the "
            f"{missing}. The variance falls to {found.variance:.2f} instead of staying 1.",
            where=operands.place,
            severity="bug",
            evidence={
                "relation that holds for all samples": f"{found.relation} = 1",
                "noise levels": found.levels,
                "lowest and highest factor of the noise": [found.lowest, found.highest],
                "lowest a² + b²": found.variance,
                "threshold": levels,
                "source": "Ho et al., 2020, equation 4: a² = alpha_bar, b² = 1 - alpha_bar",
            },
            remedies=(
                Remedy("Scale by the square roots.", "noisy = alpha_bar.sqrt() * x + (1 - alpha_bar).sqrt() * noise"),
            ),
        )
        return
