"""A bootstrapped target that is trained as well, or that is kept only where the episode ends."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands
from nbdebug.experiments.bootstraps import Bootstrap

__all__ = ["bootstrapped_target_wrong"]

RIGHT = """with torch.no_grad():
    wanted = reward + discount * (~done) * model(next_state).max(1).values
loss = F.smooth_l1_loss(value, wanted)"""


@check
def bootstrapped_target_wrong(
    operands: LossOperands,
    *,
    continued: float = 0.35,  # of the transitions; with fewer, most would be the last of their episode; our choice
    samples: int = 16,  # transitions, so that the share is none by chance
) -> Iterator[Finding]:
    """The target of a value function has a gradient, or its bootstrap is kept only where the episode ends.

    nbdebug records one run of your loss and looks for a prediction that is compared with data plus a discounted value
    of a network. It reports such a target with a gradient, and a mask of zeros and ones that keeps few of these values.

    Why it matters: a target with a gradient moves toward the prediction instead of the other way round, and the values
    converge to something else. With `done` in the place of `1 - done`, values are taken from where there are none.

    What to try: compute the target under `torch.no_grad()`, and multiply the next value by `1 - done`.
    """
    for found in operands.bootstraps:
        if found.has_gradient:
            said = (
                f"The target, data plus {found.discount:g} times a value of the network, has a gradient: it is trained"
            )
            yield _finding(found, f"{said} to follow the prediction.", operands.place)
            return
        if found.continued < continued and found.samples >= samples:
            named = f"`{found.sources[0]}`" if len(found.sources) == 1 else "the mask"
            said = f"The discounted value is kept for {found.continued:.0%} of {found.samples} transitions ({named})"
            yield _finding(found, f"{said}: the mask of the episode's end looks inverted.", operands.place)
            return


def _finding(found: Bootstrap, says: str, place: str) -> Finding:
    return Finding(
        says,
        where=place,
        severity="suspect",
        evidence={
            "discount": found.discount,
            "target has a gradient": found.has_gradient,
            "share of values that are kept": found.continued,
            "transitions": found.samples,
            "threshold": "no gradient; most transitions continue",
            "source": "Mnih et al., 2015 (DQN), algorithm 1",
        },
        remedies=(Remedy("Compute the target without a gradient, and stop it at the end.", RIGHT),),
    )
