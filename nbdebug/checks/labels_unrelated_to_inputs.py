"""Labels that the inputs do not predict."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotApplicable
from nbdebug.evidence import Baselines, OwnRelation
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["labels_unrelated_to_inputs"]

REMEDIES = (
    Remedy("Inspect inputs with their labels.", "print(next(iter(loader)))"),
    Remedy("Shuffle and sort inputs and labels with the same index.", "x, y = x[order], y[order]"),
)


@check(explains=("learns-without-inputs", "worse-than-baseline", "loss-flat"))
def labels_unrelated_to_inputs(
    simple: Baselines | None,
    own: OwnRelation | None,
    *,
    p_value: float = 0.01,  # at 120 samples a correlation of 0.24 reaches it
    samples: int = 120,
    surely: float = 0.003,  # for the validation data; 2,000 permutations and three models can reach 0.0015
) -> Iterator[Finding]:
    """The labels look unrelated to the inputs; they may be shuffled or misaligned.

    Nearest neighbors, a linear model and a random forest predict the labels of held-out samples, and the scores are
    compared with shuffled labels. Where they fail on the training data and not on the validation data, that is enough;
    where there is nothing to compare with, your model is trained briefly on some samples and evaluated on others.

    Why it matters: labels that belong to other samples can be memorized, but never predicted. The training loss falls
    slowly, and the validation error stays at chance level.

    What to try: inspect some samples with their labels. Look for inputs that are shuffled without the labels, for file
    lists sorted differently, and for an index that is off by one.
    """
    if simple is None and own is None:
        raise NotApplicable("neither simple models nor your own can be evaluated on this kind of target")
    if simple is not None and simple.p < p_value:
        return
    if simple is not None and simple.held_out is not None and simple.held_out < surely:
        yield _training_only(simple, surely)
        return
    if own is None:
        raise NotApplicable("simple models find no relation, and your model could not be trained to test for one")
    if own.p < p_value:
        return
    yield _finding(simple, own, samples, p_value)


def _finding(simple: Baselines | None, own: OwnRelation, samples: int, p_value: float) -> Finding:
    size = own.trained_on + own.held_out
    conclusive = own.by_heart or (own.exhausted and simple is not None)  # a run that was cut short is inconclusive
    enough = size >= samples and conclusive
    return Finding(
        f"The labels look unrelated to the inputs{_scores(simple)}. Your model (training loss {own.first_loss:.3g} to "
        f"{own.last_loss:.3g} in {own.steps} steps on {own.trained_on} samples) does no better on {own.held_out} "
        f"held-out samples (loss {own.held_loss:.3g}) than with shuffled targets ({own.shuffled_loss:.3g}; "
        f"p = {own.p:.2g}).",
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
        remedies=REMEDIES,
        exhibit=Bars(
            ("own targets", "shuffled targets"), (own.held_loss, own.shuffled_loss), "Loss on held-out samples"
        ),
    )


def _training_only(simple: Baselines, surely: float) -> Finding:
    return Finding(
        f"The training labels look unrelated to the inputs{_scores(simple)}, but the validation labels do not "
        f"(p = {simple.held_out:.1g}). The training labels may be shuffled or misaligned.",
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
        remedies=REMEDIES,
        exhibit=Bars(("best baseline", "chance level"), (simple.score, simple.chance), "Score on training samples"),
    )


def _scores(simple: Baselines | None) -> str:
    if simple is None:
        return ""
    measure = "accuracy" if simple.kind == "classes" else "explained variance"
    return (
        f" (best baseline {measure} {simple.score:.2f}, chance {simple.chance:.2f}, p = {simple.p:.2g}, "
        f"{simple.size} samples)"
    )
