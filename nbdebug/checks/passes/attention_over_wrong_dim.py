"""Attention weights that do not sum to 1 where they are summed."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.attention_scores import AttentionScores
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.experiments.constant_weights import ConstantWeight

__all__ = ["attention_over_wrong_dim"]


@check(
    explains=("causal-leak", "batch-mixing", "softmax-over-wrong-dim", "worse-than-baseline", "untrained-parameters")
)
def attention_over_wrong_dim(scores: AttentionScores | None, structure: RecordedStructure | None) -> Iterator[Finding]:
    """The softmax of an attention normalizes over another dimension than that of the keys.

    nbdebug looks for a softmax of a product of two values (queries and keys) whose result goes into another product,
    and compares the dimension of the softmax with the one that the second product sums over. And it looks for a softmax
    over a dimension of length 1, whose weights are all 1, while they are summed over a longer one.

    Why it matters: an output of attention is an average of values only if the weights of each query sum to 1. Over
    another dimension, queries, heads or samples compete with each other, and a causal mask hides nothing.

    What to try: `softmax(dim=-1)` for scores of shape (batch, heads, queries, keys).
    """
    if scores is None and structure is None:
        raise NotApplicable("no run could be recorded")
    for one in structure.constant_weights[:1] if structure is not None else ():
        yield _of_one(one)
    found = [facts for facts in scores.attentions if facts.is_contracted is False] if scores is not None else []
    for facts in found[:1]:
        last = len(facts.shape) - 1
        over_keys = Patch("softmax-dimension", {"wrong": facts.axis % (last + 1), "right": last})
        yield Finding(
            f"The softmax in `{facts.module or 'model'}` normalizes its scores of shape {facts.shape} over dim "
            f"{facts.axis}, but the product with the values sums over another dimension.",
            where=facts.module,
            severity="suspect",
            evidence={
                "attentions": len(found),
                "dimension of the softmax": facts.axis,
                "shape": facts.shape,
                "threshold": "the dimension that the next product sums over",
                "source": "Vaswani et al. 2017, Attention Is All You Need, equation 1",
            },
            remedies=(Remedy("Normalize over the keys.", "weights = scores.softmax(dim=-1)", over_keys),),
        )


def _of_one(one: ConstantWeight) -> Finding:
    right = Patch("softmax-dimension", {"wrong": one.axis, "right": one.summed})
    return Finding(
        f"The softmax in `{one.module or 'model'}` normalizes its scores of shape {one.shape} over dim {one.axis}, "
        f"which has length 1: all weights are 1, whatever the scores. They are summed over dim {one.summed}.",
        where=one.module,
        severity="bug",
        evidence={
            "shape": one.shape,
            "dimension of the softmax": one.axis,
            "dimension that is summed over": one.summed,
            "threshold": "a softmax over one value is 1",
            "source": "documentation of torch.nn.Softmax: it is computed along dim",
        },
        remedies=(Remedy("Normalize over what is summed.", f"weights = scores.softmax(dim={one.summed})", right),),
    )
