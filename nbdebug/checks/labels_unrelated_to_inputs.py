"""Labels that nothing in the inputs predicts."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Baselines, OwnRelation
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["labels_unrelated_to_inputs"]

LOOK = (
    Remedy("Look at inputs with their labels.", "print(next(iter(loader)))"),
    Remedy("Shuffle and sort inputs and labels by one and the same index.", "x, y = x[order], y[order]"),
)


@check(explains=("learns-without-inputs", "worse-than-baseline", "loss-flat"))
def labels_unrelated_to_inputs(
    simple: Baselines | None,
    own: OwnRelation | None,
    *,
    p_value: float = 0.01,  # at 120 samples a correlation of 0.24 shows as much; a task with less is hardly one
    samples: int = 120,
    surely: float = 0.003,  # for the validation data; 2,000 shuffles and three models can give 0.0015
) -> Iterator[Finding]:
    """Nothing in the inputs predicts the labels: they may be shuffled, or read in another order.

    Nearest neighbours, a linear model and a forest try to predict labels of samples they have not seen, compared with
    shuffled labels. Where they fail on the training data and not on the validation data, that is enough; where there is
    nothing to compare with, your model is trained shortly on some samples and asked about others.

    Why it matters: labels that belong to other samples can be learned by heart, but never predicted. The training loss
    falls, slowly, and the validation error stays where guessing is.

    What to try: look at some samples with their labels. Look for a shuffle of inputs without the labels, for file lists
    sorted differently, and for an index that is off by one.
    """
    if simple is None and own is None:
        raise NotApplicable("neither simple models nor your own could be asked about this kind of target")
    if simple is not None and simple.p < p_value:
        return
    if simple is not None and simple.held_out is not None and simple.held_out < surely:
        yield _only_here(simple, surely)
        return
    if own is None:
        raise NotApplicable("simple models find no relation, and your model could not be trained to look for one")
    if own.p < p_value:
        return
    yield _finding(simple, own, samples, p_value)


def _finding(simple: Baselines | None, own: OwnRelation, samples: int, p_value: float) -> Finding:
    size = own.trained_on + own.held_out
    asked = own.by_heart or (own.exhausted and simple is not None)  # a model that was cut short cannot tell
    enough = size >= samples and asked
    return Finding(
        f"{_simple(simple)}Your model, trained for {own.steps} steps on {own.trained_on} samples (loss from "
        f"{own.first_loss:.3g} to {own.last_loss:.3g}), does no better on {own.held_out} others with their own targets "
        f"({own.held_loss:.3g}) than with those of other samples ({own.shuffled_loss:.3g}; p = {own.p:.2g}).",
        where="loader",
        severity="suspect" if enough else "note",
        evidence={
            "p of the own model": own.p,
            "p of simple models": simple.p if simple is not None else None,
            "score": simple.score if simple is not None else None,
            "chance": simple.chance if simple is not None else None,
            "samples": size,
            "threshold": p_value,
            "source": "permutation and paired tests against shuffled labels",
        },
        remedies=LOOK,
        exhibit=Bars(
            ("own targets", "targets of others"), (own.held_loss, own.shuffled_loss), "Loss on unseen samples"
        ),
    )


def _only_here(simple: Baselines, surely: float) -> Finding:
    return Finding(
        f"{_simple(simple)}On the validation data they do (p = {simple.held_out:.1g}): the training labels belong to "
        "other samples.",
        where="loader",
        severity="bug",
        evidence={
            "p on the training data": simple.p,
            "p on the validation data": simple.held_out,
            "score": simple.score,
            "chance": simple.chance,
            "samples": simple.size,
            "threshold": surely,
            "source": "permutation tests against shuffled labels",
        },
        remedies=LOOK,
        exhibit=Bars(("best simple model", "chance"), (simple.score, simple.chance), "Training samples"),
    )


def _simple(simple: Baselines | None) -> str:
    if simple is None:
        return ""
    measure = "accuracy" if simple.kind == "classes" else "share of variance explained"
    return (
        f"Simple models do not predict the labels of {simple.size} samples (best {measure} {simple.score:.2f}, chance "
        f"{simple.chance:.2f}, p = {simple.p:.2g}). "
    )
