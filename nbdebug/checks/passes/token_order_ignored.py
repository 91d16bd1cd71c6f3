"""Attention over tokens whose positions are never told."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.evidence.order_response import OrderResponse

__all__ = ["token_order_ignored"]

ADD = """self.positions = nn.Embedding(max_length, width)
x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))"""


@check(explains=("worse-than-baseline", "training-fails"))
def token_order_ignored(
    response: OrderResponse,
    *,
    moved: float = 1e-4,  # of the predictions' standard deviation; float32 rounding is below
    context: float = 1e-3,  # of the same; that other tokens matter at all; our choice
    order: float = 6.0,  # standard deviations over chance; our choice
    placed: float = 0.5,  # share of a token's occurrences at one position: then it tells its place itself; our choice
) -> Iterator[Finding]:
    """The model sees which tokens there are, but not their order.

    Where attention mixes a sequence of tokens, nbdebug permutes the tokens between the first and the last one, in eval
    mode, and compares the prediction of each token with that at its new position. It reports models whose predictions
    only move with their tokens, if tokens of the data are neighbors far more often than by chance; sets, whose order
    says nothing, and models with one prediction per sequence get no alarm. A table of positions of which one row is
    added to all tokens is reported for every model.

    Why it matters: attention without positions sees a bag of tokens. "Dog bites man" and "man bites dog" are the same.

    What to try: add position embeddings (learned or sinusoidal) to the token embeddings, or rotary or relative
    positions in the attention; see whether those that you have are added to what the first layer receives.
    """
    if response.moved > moved or response.context <= context:
        return
    if response.one_row:
        yield _one_row(response, moved)
        return
    if response.order < order or response.placed > placed:
        return
    severity: Severity = "suspect" if response.per_position else "note"
    yield Finding(
        f"Permuting the tokens of `{response.name}` only moves their predictions along (change {response.moved:.1e}), "
        f"although their order says something: the same tokens are neighbors {response.order:.0f} standard deviations "
        "more often than by chance.",
        where="model",
        severity=severity,
        evidence={
            "change by the permutation": response.moved,
            "change by other tokens": response.context,
            "one prediction per position": response.per_position,
            "neighbors over chance": response.order,
            "share of a token's occurrences at one position": response.placed,
            "threshold": moved,
            "source": "Vaswani et al. 2017, section 3.5: attention without positions cannot use the order",
        },
        remedies=(Remedy("Add positions to the tokens.", ADD),),
    )


def _one_row(response: OrderResponse, moved: float) -> Finding:
    return Finding(
        f"The same row of a table of positions is added to all {response.positions} tokens of `{response.name}`: the "
        f"model sees no order (change by a permutation {response.moved:.1e}).",
        where="model",
        severity="suspect",
        evidence={
            "change by the permutation": response.moved,
            "change by other tokens": response.context,
            "positions": response.positions,
            "threshold": moved,
            "source": "Vaswani et al. 2017, section 3.5: each position has a row of its own",
        },
        remedies=(Remedy("Add a row for each position.", "x = x + self.positions[:, : x.shape[1]]"),),
    )
