"""Labels that are not valid classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import Cancelled, NbdebugError, NotApplicable, OutOfTime
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.loader_sweep_tally import PartFacts
from nbdebug.experiments.label_trial import LabelTrial, is_scored, names_columns, try_label
from nbdebug.experiments.loss_of_outputs import LossBox, open_box
from nbdebug.experiments.task import class_dim
from nbdebug.sandbox import Sandbox
from nbdebug.setup.nested import Path
from nbdebug.setup.user_code import user_code

__all__ = ["REPAIRS", "LabelTrial", "LabelTrials", "invalid_labels", "label_trials"]


@dataclass(frozen=True)
class LabelTrials:
    """The labels that lie outside of the classes, tried one by one, and what would make a loss run that fails.

    `error` is what the loss says to the labels as they are; `repair` names the change that helps. `bottomless` says
    that these labels let the loss fall without end where labels of 0 and 1 do not.
    """

    name: str
    classes: int = 0
    trials: tuple[LabelTrial, ...] = ()
    error: str = ""
    repair: str = ""
    dtype: str = ""
    bottomless: bool = False
    low: float = math.nan
    high: float = math.nan
    reason: str = ""


SAMPLES = 12
VALUES = 8
REPAIRS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "int64 class indices (target.long())": lambda t: t.long(),
    "class indices instead of one-hot rows (target.argmax(1))": lambda t: t.argmax(1) if t.dim() > 1 else t,
    "zero-based labels (target - 1)": lambda t: (t - 1).long(),
    "float targets (target.float())": lambda t: t.float(),
}


@probe
def label_trials(sandbox: Sandbox, sweep: LoaderSweep) -> LabelTrials:
    """Test how the loss handles labels outside the class range."""
    sweep.require()
    if len(sweep.targets) != 1:
        raise NotApplicable("the batch has no separate target, or several")
    part, batch = sweep.targets[0], sandbox.batch().head(SAMPLES)
    target = next(iter(batch.targets.values()))
    try:
        with sandbox.mode(training=False):
            box = open_box(sandbox, batch)
        path, output = _head_of(box)
    except (Cancelled, OutOfTime):
        raise
    except (NbdebugError, IndexError) as why:
        return LabelTrials(part.name, reason=str(why).splitlines()[0] if str(why) else "the model returns no output")
    except Exception as failure:
        return LabelTrials(part.name, reason=f"the model fails ({type(failure).__name__}: {failure})")
    error = box.error()
    found = LabelTrials(part.name, error=error, dtype=part.dtype, low=part.low, high=part.high)
    if error:
        found = replace(found, repair=_repair(box))
    dim = class_dim(output, target) if target.dim() < output.dim() else None
    if dim is not None and output.shape[dim] > 1 and part.whole:
        classes = int(output.shape[dim])
        if not is_scored(box, path, target, classes):
            return found
        trials = tuple(try_label(box, path, target, v, classes) for v in _measured_outside(part, classes))
        if any(trial.verdict == "taken" for trial in trials) and not names_columns(box, path, target, dim):
            return found  # levels of a scale, counted by questions, are one more than these
        return replace(found, classes=classes, trials=trials)
    if not error and output.numel() == target.numel() and _like_labels(part):
        return replace(found, bottomless=_is_bottomless(box, path, output, target, part))
    return found


def _head_of(box: LossBox) -> tuple[Path, torch.Tensor]:
    """Return the output that the labels are for: of several whose gradient depends on them, the one with most scores.

    A second output may well be asked for less than the labels say: whether a digit is even, how large it is.
    """
    heads = list(box.heads.items())
    turned = replace(box, batch=box.batch.map_targets(lambda _, t: t.roll(1, 0) if t.dim() else t))
    fitting = []
    for path, output in heads if len(heads) > 1 else ():
        one, other = box.gradient(path, output)[1], turned.gradient(path, output)[1]
        if one is not None and other is not None and not torch.equal(one, other):
            fitting.append((path, output))
    return max(fitting, key=lambda head: head[1].numel(), default=heads[0])


def _repair(box: LossBox) -> str:
    """Return the first change of the labels that makes the loss run."""
    for name, change in REPAIRS.items():
        with user_code(passing=()):
            changed = box.batch.map_targets(lambda _, t, change=change: change(t))  # type: ignore[misc]
            value = box.evaluate(box.output, changed)
            if isinstance(value, torch.Tensor) and bool(torch.isfinite(value).all()):
                return name
    return ""


def _measured_outside(part: PartFacts, classes: int) -> list[float]:
    """Return the labels that were seen and are no class."""
    seen = np.unique(np.append(part.rows.ravel(), [part.low, part.high]))
    return [float(v) for v in seen if np.isfinite(v) and not 0 <= v < classes][:VALUES]


def _like_labels(part: PartFacts) -> bool:
    """Whether these could be names of two classes, but are not 0 and 1."""
    if not part.whole or not part.rows.size or (part.low >= 0 and part.high <= 1):
        return False
    return len(np.unique(part.rows)) == 2 and part.high - part.low <= 2


def _is_bottomless(box: LossBox, path: Path, output: torch.Tensor, target: torch.Tensor, part: PartFacts) -> bool:
    """Whether the loss falls without end for these labels, and does not for 0 and 1."""

    def lowest(low: float, high: float) -> float:
        answers = []
        for label in (low, high):
            changed = box.batch.map_targets(lambda _, t, label=label: torch.full_like(t, label))  # type: ignore[misc]
            losses = [box.loss(path, torch.full_like(output, v), changed) for v in (30.0, -30.0, 0.999, 0.001)]
            answers += [value for value in losses if math.isfinite(value)]
        return min(answers, default=0.0)

    return lowest(part.low, part.high) < -1.0 and lowest(0.0, 1.0) > -0.01


@check(basis="statistic", explains=("forward-fails", "non-finite-forward", "cannot-overfit-batch", "loss-spikes"))
def invalid_labels(
    sweep: LoaderSweep,
    labels: LabelTrials,
    *,
    samples: int = 20,  # per class, before a class that never occurs is worth a note; our choice
    many: int = 1000,  # with more classes some may never occur; our choice
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
    setup = f"The label {values} is" if len(bad) == 1 else f"The labels {values} are"
    says = f"{setup} outside the {labels.classes} classes 0 … {labels.classes - 1}"
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
    refused = any(trial.verdict != "taken" for trial in bad)
    return Finding(
        f"{says}.",
        where=labels.name,
        severity="bug" if refused else "suspect",
        is_contradiction=refused,
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
