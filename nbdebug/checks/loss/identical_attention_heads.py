"""Attention heads that are copies of each other."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.attention_scores import ALIKE, AttentionScores

__all__ = ["identical_attention_heads"]

SPLIT = "q = self.q(x).unflatten(-1, (heads, -1)).transpose(1, 2)"


@check(explains=("worse-than-baseline",))
def identical_attention_heads(
    scores: AttentionScores,
    *,
    apart: float = ALIKE,  # of the spread of a query's scores; 0 for copies, float32 rounding is below
) -> Iterator[Finding]:
    """All heads of an attention compute the same scores.

    nbdebug reads the scores of every attention off a recorded run, head by head. Where they are alike, it changes all
    weights a little and looks again: heads that still agree read the same weights, others only start as copies. Scores
    that are all the same number, as with projections that begin at zero, are left out, and so are single heads.

    Why it matters: several heads with the same scores attend to the same places. They cost as much as different ones
    and do the work of one.

    What to try: give each head a slice of the projection of its own (split the features, do not expand or repeat one
    head), and initialize the projection as a whole.
    """
    known = [facts for facts in scores.attentions if facts.apart is not None]
    if not known:
        raise NotApplicable("no attention with several heads, whose scores can be told apart, was found")
    places = [index for index, facts in enumerate(scores.attentions) if facts.apart is not None and facts.apart < apart]
    for index in places:
        facts = scores.attentions[index]
        again = scores.shaken[index].apart if index < len(scores.shaken) else None
        stays = again is not None and again < apart
        severity: Severity = "bug" if stays else "suspect"
        how = "also after a small change of all weights" if stays else "because their weights start as copies"
        yield Finding(
            f"All {facts.heads} heads of the attention in `{facts.module or 'model'}` compute the same scores, {how}.",
            where=facts.module or "model",
            severity=severity,
            evidence={
                "heads": facts.heads,
                "largest difference of scores": facts.apart,
                "after a small change of the weights": again,
                "threshold": apart,
                "source": "Vaswani et al. 2017, section 3.2.2: heads have projections of their own",
            },
            remedies=(Remedy("Give each head a part of the projection.", SPLIT),),
        )
