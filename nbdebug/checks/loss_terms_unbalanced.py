"""One loss term dominates the gradient."""

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
    drowns: float = 1000.0,  # 37 reasons, 20: similar magnitudes; regularizers may be 100 times smaller on purpose
    large: float = 100.0,  # reported as a note only
) -> Iterator[Finding]:
    """One loss term dominates the gradient, so the other terms have no effect.

    nbdebug computes the gradient of each term separately, with the weight it has in the sum, at initialization and
    again after some training steps on one batch.

    Why it matters: the optimizer follows the sum of the gradients. A term whose gradient is a thousand times smaller
    than another's has no effect on training.

    What to try: weight the terms so that their gradients have similar norms, and log each term separately.
    """
    if any(not term.first > 0 or not term.later > 0 for term in terms.terms):
        return  # a term without a gradient is already minimal, or reported by another check
    largest = max(terms.terms, key=lambda term: term.first)
    rest = [term for term in terms.terms if term is not largest]
    ratio = min(min(largest.first / term.first, largest.later / term.later) for term in rest)
    if ratio < large:
        return
    others = ", ".join(f"`{term.name}` {term.first:.3g}" for term in rest)
    yield Finding(
        f"The loss term `{largest.name}` has a gradient norm of {largest.first:.3g}, at least {ratio:.3g} times larger "
        f"than the other terms ({others}), also after {terms.steps} steps.",
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
                "Weight the terms so that their gradients have similar norms.",
                f"loss = {largest.name} / {ratio:.1g} + " + " + ".join(term.name for term in rest),
            ),
        ),
        exhibit=Table(
            ("term", "weight", "value", "initial gradient", f"after {terms.steps} steps"),
            tuple((t.name, t.weight, t.value, t.first, t.later) for t in terms.terms),
        ),
    )
