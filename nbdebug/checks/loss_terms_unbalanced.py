"""One term of the loss drowns the others."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import LossTerms
from nbdebug.exhibit import Table
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["loss_terms_unbalanced"]


@check(explains=("loss-metric-disagree",))
def loss_terms_unbalanced(
    terms: LossTerms,
    *,
    drowns: float = 1000.0,  # 37 reasons, 20: terms of one size; regularisers may be 100 times smaller on purpose
    large: float = 100.0,  # worth knowing, never an alarm
) -> Iterator[Finding]:
    """One term of the loss is so large that the others have no say.

    nbdebug takes the gradient of each term by itself, weighted as it enters the sum, at the start and again after some
    steps of training on one batch.

    Why it matters: the weights follow the sum of the gradients. A term whose gradient is a thousand times smaller than
    another's does nothing, however well its own value is watched.

    What to try: weight the terms so that their gradients have about the same size, and watch each of them.
    """
    if any(not term.first > 0 or not term.later > 0 for term in terms.terms):
        return  # a term without any gradient is at its best already, or another check's business
    largest = max(terms.terms, key=lambda term: term.first)
    rest = [term for term in terms.terms if term is not largest]
    ratio = min(min(largest.first / term.first, largest.later / term.later) for term in rest)
    if ratio < large:
        return
    others = ", ".join(f"{term.name} {term.first:.3g}" for term in rest)
    yield Finding(
        f"The gradient of the term {largest.name} has a norm of {largest.first:.3g}, the others far less ({others}); "
        f"after {terms.steps} steps it is still at least {ratio:.3g} times larger.",
        where=largest.name,
        severity="suspect" if ratio > drowns else "note",
        evidence={
            "ratio of the gradients": ratio,
            "where the terms come from": terms.place,
            "threshold": drowns,
            "source": "37 reasons, 20: scale each loss",
        },
        remedies=(
            Remedy(
                "Weight the terms to the same size.",
                f"loss = {largest.name} / {ratio:.1g} + " + " + ".join(term.name for term in rest),
            ),
        ),
        exhibit=Table(
            ("term", "weight", "value", "gradient at first", f"after {terms.steps} steps"),
            tuple((t.name, t.weight, t.value, t.first, t.later) for t in terms.terms),
        ),
    )
