"""Attention scores without their scale."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.attention_scores import AttentionFacts, AttentionScores

__all__ = ["unscaled_attention"]


@check(basis="statistic", explains=("saturated-units", "vanishing-gradients", "cannot-overfit-batch"))
def unscaled_attention(
    scores: AttentionScores,
    *,
    spread: float = 2.0,  # standard deviation of a query's scores; at most 1 with the scale of Vaswani et al. 2017
    effective: float = 0.5,  # of the keys; our choice, exp(-1/2) = 0.6 is expected at a standard deviation of 1
) -> Iterator[Finding]:
    """The scores of an attention are not scaled, and its softmax is nearly one-hot.

    nbdebug looks for attention whose scores, queries and keys are neither multiplied with a number nor normalized, and
    measures how much the scores of one query differ, and to how many keys it effectively attends.

    Why it matters: a product over d features grows with the square root of d. A softmax of large scores attends to one
    key at random, and its gradient is close to zero.

    What to try: divide the scores by the square root of the size of a head, or use
    `F.scaled_dot_product_attention`, which does so.
    """
    found = [facts for facts in scores.attentions if _is_sharp(facts, spread, effective)]
    for facts in found[:1]:
        yield Finding(
            f"The scores of `{facts.module or 'the attention'}` are not scaled: within a query they have a standard "
            f"deviation of {facts.spread:.2g}, and {facts.effective:.0%} of the {facts.shape[-1]} keys count (heads of "
            f"{facts.depth} features).",
            where=facts.module,
            severity="suspect",
            evidence={
                "attentions": len(found),
                "standard deviation of a query's scores": facts.spread,
                "share of keys that count": facts.effective,
                "features": facts.depth,
                "threshold": spread,
                "source": "Vaswani et al. 2017, Attention Is All You Need, section 3.2.1",
            },
            remedies=(Remedy("Scale the scores.", "scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])"),),
        )


def _is_sharp(facts: AttentionFacts, spread: float, effective: float) -> bool:
    if facts.is_scaled or not facts.depth or facts.spread is None or facts.effective is None:
        return False
    return facts.spread > spread and facts.effective < effective
