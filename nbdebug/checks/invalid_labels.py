"""Labels that are no classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nbdebug.errors import NotApplicable
from nbdebug.evidence import LabelTrials, LoaderSweep
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["invalid_labels"]


@check(explains=("forward-fails", "non-finite-forward", "batch-not-memorised", "loss-spikes"))
def invalid_labels(
    sweep: LoaderSweep,
    labels: LabelTrials,
    *,
    samples: int = 20,  # for each class, before a class that never occurs is worth a note
    many: int = 1000,  # classes, of which some may well never occur
) -> Iterator[Finding]:
    """Some labels are no classes of this model, or are written in a form that the loss does not mean.

    nbdebug gathers the labels of samples from all over the data set and gives those outside of 0 … C-1 to the loss, one
    by one: a label that it ignores (`ignore_index`) is healthy, one that it refuses or takes for another class is not.
    Where the loss fails on the labels, the usual changes are tried: integers for floats, ids for one-hot rows, counting
    from 0. For one output, labels of 1 and 2 or -1 and 1 let binary cross-entropy fall without end.

    Why it matters: the training ends with an index error in the middle of an epoch, or, worse, goes on with a label
    that means something else.

    What to try: count labels from 0 to C-1, as 64-bit integers; give the last layer one output for each class.
    """
    sweep.require()
    if labels.reason:
        raise NotApplicable(labels.reason)
    wrong = [trial for trial in labels.trials if trial.verdict in ("refused", "wrapped")]
    odd = [trial for trial in labels.trials if trial.verdict == "taken"]
    evidence = {"lowest": labels.low, "highest": labels.high, "classes": labels.classes, "type": labels.dtype,
                "looked at": sweep.says, "source": "classes are 0 … C-1, unless the loss ignores them"}  # fmt: skip
    if wrong or odd:
        yield _outside(sweep, labels, evidence)
    elif labels.error and labels.repair:
        yield Finding(
            f"The loss fails on the {labels.dtype} labels ({labels.error.splitlines()[0]}); it runs with "
            f"{labels.repair}.",
            where=labels.name,
            evidence={**evidence, "threshold": 0, "error": labels.error},
            remedies=(
                Remedy(
                    f"Use {labels.repair}.",
                    f"target = {labels.repair.partition('(')[2].removesuffix(')')}",
                    Patch("convert-labels", {"how": labels.repair}),
                ),
            ),
        )
    elif labels.bottomless:
        yield Finding(
            f"The labels are {labels.low:g} and {labels.high:g}; with them the loss falls below zero without end, as "
            f"it does not with 0 and 1.",
            where=labels.name,
            evidence={**evidence, "threshold": 1},
            remedies=(
                Remedy(
                    "Write the two classes as 0 and 1.",
                    "target = (target > target.min()).float()",
                    Patch("binary-labels", {"low": labels.low}),
                ),
            ),
        )
    else:
        yield from _unused(sweep, labels, samples, many, evidence)


def _outside(sweep: LoaderSweep, labels: LabelTrials, evidence: dict[str, object]) -> Finding:
    bad = [trial for trial in labels.trials if trial.verdict in ("refused", "wrapped", "taken")]
    values = ", ".join(f"{trial.value:g}" for trial in bad)
    from_one = labels.low == 1 and labels.high == labels.classes
    wraps = next((trial for trial in bad if trial.verdict == "wrapped"), None)
    given = sweep.labels.get(labels.name)
    ill = np.isin(given, [trial.value for trial in bad]) if given is not None else np.zeros(0, bool)
    says = f"The labels {values} are none of the {labels.classes} classes 0 … {labels.classes - 1}"
    if given is not None and ill.any():
        says += f" ({int(ill.sum())} of {sweep.seen} samples, first sample {sweep.indices[ill][0]})"
    if from_one:
        says += "; they count from 1"
    elif wraps is not None:
        says += f"; the loss takes {wraps.value:g} for class {wraps.same_as}"
    shift = Remedy("Count from 0.", "target = target - 1", Patch("shift-labels", {"by": -1}) if from_one else None)
    room = Remedy(
        "Let the loss ignore them, or give the model more outputs.",
        "nn.CrossEntropyLoss(ignore_index=-1)",
        Patch("ignore-labels", {"values": [trial.value for trial in bad]}),
    )
    return Finding(
        f"{says}.",
        where=labels.name,
        severity="bug" if any(trial.verdict != "taken" for trial in bad) else "suspect",
        evidence={**evidence, "outside": [trial.value for trial in bad], "threshold": labels.classes},
        remedies=(shift, room) if from_one else (room, shift),
    )


def _unused(
    sweep: LoaderSweep, labels: LabelTrials, samples: int, many: int, evidence: dict[str, object]
) -> Iterator[Finding]:
    given = sweep.class_labels().get(labels.name)
    if given is None or not 1 < labels.classes <= many or len(given) < samples * labels.classes:
        return
    missing = sorted(set(range(labels.classes)) - set(np.unique(given).tolist()))
    if missing:
        named = ", ".join(str(label) for label in missing[:8])
        yield Finding(
            f"{len(missing)} of {labels.classes} classes never occur in {sweep.says}: {named}.",
            where=labels.name,
            severity="note",
            evidence={**evidence, "never": missing, "threshold": samples},
        )
