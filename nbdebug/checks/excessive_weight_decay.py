"""Weight decay that outweighs the gradient."""

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
    "Reduce the weight decay.",
    "torch.optim.AdamW(model.parameters(), lr=…, weight_decay=0.01)",
    Patch("set-optimizer-option", {"option": "weight_decay", "value": 0.01}),
)
NONE = Remedy(
    "Start without weight decay.",
    'for group in optimizer.param_groups:\n    group["weight_decay"] = 0',
    Patch("set-optimizer-option", {"option": "weight_decay", "value": 0.0}),
)


@check(explains=("batch-not-memorised", "unusual-optimizer"))
def excessive_weight_decay(
    race: DecayRace,
    weights: InitialWeights | None,
    first: FirstPass | None,
    *,
    lost: float = 0.25,  # of the loss reduction without decay
    dominance: float = 3.0,  # decay over gradient in one step, where training is too slow to compare losses
) -> Iterator[Finding]:
    """Weight decay shrinks the weights faster than the gradient can grow them.

    nbdebug takes one step with your weight decay and one without. Where decay is a large part of the step, it trains
    two copies for a while and compares their losses.

    Why it matters: weights that decay faster than they learn end at zero, and the model outputs the same for every
    input.

    What to try: 1e-4 to 5e-3 for SGD, 0.01 to 0.1 for AdamW, and close to none for Adam, whose decay passes through its
    adaptive scaling; none for biases and normalization layers.
    """
    if race.decay == 0:
        raise NotApplicable("the optimizer has no weight decay")
    if not race.with_decay:
        return
    decayed, undecayed = race.ends()
    if not math.isfinite(undecayed):
        raise NotApplicable("the loss is not finite without weight decay either")
    start = race.without[0]
    chance = first.chance_loss if first is not None and first.chance_loss is not None else start
    fresh = (weights is None or weights.fresh) and start > 0.5 * chance
    gained = start - undecayed
    if gained < 0.05 * abs(start):  # too slow to compare losses: trained models and tiny learning rates
        if fresh and race.dominance > dominance:
            yield _finding(race, dominance, "suspect")
        return
    shortfall = (decayed - undecayed) / gained
    dominated = shortfall > 0.4 * lost and decayed > 3 * undecayed > 0 and race.dominance > 0.5
    harmed = (shortfall > lost or dominated) and (fresh or decayed > start + 0.05 * abs(chance))
    if harmed or not math.isfinite(decayed):
        yield _finding(race, lost, "suspect" if shortfall < 2 * lost else "bug")


def _finding(race: DecayRace, threshold: float, severity: Severity) -> Finding:
    decayed, undecayed = race.ends()
    curves = (("with decay", race.with_decay), ("without decay", race.without))
    return Finding(
        f"With weight decay {race.decay:g} the loss goes from {race.without[0]:.3g} to {decayed:.3g} in "
        f"{len(race.with_decay)} steps, without it to {undecayed:.3g}. Decay contributes {race.dominance:.2g} times as "
        "much to a step as the gradient.",
        where="optimizer",
        severity=severity,
        evidence={
            "weight decay": race.decay,
            "learning rate": race.learning_rate,
            "decay over gradient": race.dominance,
            "loss with decay": decayed,
            "loss without": undecayed,
            "threshold": threshold,
            "source": "37 reasons, 30; compared within the run",
        },
        remedies=(LESS, NONE),
        exhibit=Lines(
            tuple((name, tuple(map(float, range(len(losses)))), losses) for name, losses in curves),
            title="Loss with and without weight decay",
        ),
    )
