"""Weight decay that is stronger than the data."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import DecayRace, FirstPass, InitialWeights
from nbdebug.exhibit import Lines
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["excessive_weight_decay"]

LESS = Remedy(
    "Pull less.",
    "torch.optim.AdamW(model.parameters(), lr=…, weight_decay=0.01)",
    Patch("set-optimizer-option", {"option": "weight_decay", "value": 0.01}),
)
NONE = Remedy(
    "Begin without weight decay.",
    'for group in optimizer.param_groups:\n    group["weight_decay"] = 0',
    Patch("set-optimizer-option", {"option": "weight_decay", "value": 0.0}),
)


@check(explains=("batch-not-memorised", "unusual-optimizer"))
def excessive_weight_decay(
    race: DecayRace,
    weights: InitialWeights | None,
    first: FirstPass | None,
    *,
    lost: float = 0.25,  # of what the training without decay gains
    dominance: float = 3.0,  # decay over gradient in one step, where the race is too slow to tell
) -> Iterator[Finding]:
    """Weight decay pulls the weights to zero faster than the data can build them up.

    nbdebug takes one step with your weight decay and one without. Where decay makes a good part of the step, two
    copies are trained on for a while and their losses compared.

    Why it matters: weights that are pulled to zero faster than they learn end there, and the model answers the same
    whatever it is shown.

    What to try: 1e-4 to 5e-3 for SGD, 0.01 to 0.1 for AdamW, and close to nothing for Adam, whose decay goes through
    its scaling; none for biases and norms.
    """
    if race.decay == 0:
        raise NotApplicable("the optimizer has no weight decay")
    if not race.with_decay:
        return
    held, loose = race.ends()
    if not math.isfinite(loose):
        raise NotApplicable("the training is not finite without weight decay either")
    start = race.without[0]
    chance = first.chance_loss if first is not None and first.chance_loss is not None else start
    fresh = (weights is None or weights.fresh) and start > 0.5 * chance
    gained = start - loose
    if gained < 0.05 * abs(start):  # too slow to tell by the loss: trained models and tiny learning rates
        if fresh and race.dominance > dominance:
            yield _finding(race, dominance, "suspect")
        return
    behind = (held - loose) / gained
    outrun = behind > 0.4 * lost and held > 3 * loose > 0 and race.dominance > 0.5
    harmed = (behind > lost or outrun) and (fresh or held > start + 0.05 * abs(chance))
    if harmed or not math.isfinite(held):
        yield _finding(race, lost, "suspect" if behind < 2 * lost else "bug")


def _finding(race: DecayRace, threshold: float, severity: Severity) -> Finding:
    held, loose = race.ends()
    curves = (("with decay", race.with_decay), ("without", race.without))
    return Finding(
        f"With a weight decay of {race.decay:g} the loss goes from {race.without[0]:.3g} to {held:.3g} in "
        f"{len(race.with_decay)} steps, without it to {loose:.3g}; decay makes {race.dominance:.2g} times as much of a "
        "step as the gradient does.",
        where="optimizer",
        severity=severity,
        evidence={
            "weight decay": race.decay,
            "learning rate": race.learning_rate,
            "decay over gradient": race.dominance,
            "loss with decay": held,
            "loss without": loose,
            "threshold": threshold,
            "source": "37 reasons, 30; compared within the run",
        },
        remedies=(LESS, NONE),
        exhibit=Lines(
            tuple((name, tuple(map(float, range(len(losses)))), losses) for name, losses in curves),
            title="A short training with and without weight decay",
        ),
    )
