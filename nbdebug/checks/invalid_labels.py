"""Labels that are not valid classes."""

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
    samples: int = 20,  # per class, before a class that never occurs is worth a note
    many: int = 1000,  # with more classes some may never occur
) -> Iterator[Finding]:
    """Some labels are not valid classes of this model, or have a format that the loss does not expect.

    nbdebug collects the labels of samples from across the dataset and passes those outside 0 … C-1 to the loss, one by
    one: a label that it ignores (`ignore_index`) is fine, one that raises an error or counts as another class is not.
    Where the loss fails on the labels, common conversions are tried: floats to integers, one-hot rows to class indices,
    numbering from 0. With a single output, labels 1 and 2 or -1 and 1 make binary cross-entropy unbounded below.

    Why it matters: training stops with an index error in the middle of an epoch, or, worse, continues with a label that
    counts as another class.

    What to try: number the classes from 0 to C-1, as 64-bit integers; give the last layer one output per class.
    """
    sweep.require()
    if labels.reason:
        raise NotApplicable(labels.reason)
    wrong = [trial for trial in labels.trials if trial.verdict in ("refused", "wrapped")]
    accepted = [trial for trial in labels.trials if trial.verdict == "taken"]
    evidence = {"lowest": labels.low, "highest": labels.high, "classes": labels.classes, "type": labels.dtype,
                "looked at": sweep.says, "source": "classes are 0 … C-1, unless the loss ignores a label"}  # fmt: skip
    if wrong or accepted:
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
            f"The labels {labels.low:g} and {labels.high:g} make the loss unbounded below; with 0 and 1 it is bounded.",
            where=labels.name,
            evidence={**evidence, "threshold": 1},
            remedies=(
                Remedy(
                    "Encode the two classes as 0 and 1.",
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
    invalid = np.isin(given, [trial.value for trial in bad]) if given is not None else np.zeros(0, bool)
    subject = f"The label {values} is" if len(bad) == 1 else f"The labels {values} are"
    says = f"{subject} outside the {labels.classes} classes 0 … {labels.classes - 1}"
    if given is not None and invalid.any():
        says += f" ({int(invalid.sum())} of {sweep.seen} samples, first: sample {sweep.indices[invalid][0]})"
    if from_one:
        says += "; labels start at 1"
    elif wraps is not None:
        says += f"; the loss treats {wraps.value:g} as class {wraps.same_as}"
    shift = Remedy(
        "Number the classes from 0.", "target = target - 1", Patch("shift-labels", {"by": -1}) if from_one else None
    )
    room = Remedy(
        "Set `ignore_index`, or add outputs to the model.",
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
