"""A class of the data that the loss leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.class_weighting import ClassWeighting
from nbdebug.evidence.last_tokens import LastTokens
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import required_run

__all__ = ["IgnoredClasses", "class_ignored_by_loss", "ignored_classes"]


@dataclass(frozen=True)
class IgnoredClasses:
    """How many samples of each class the loss leaves out, and how: `ignore_index` or a class weight of 0."""

    classes: int
    samples: int
    ignored: dict[int, int]
    by: str


BATCHES = 4
_LOSSES = ("cross_entropy", "nll_loss")


@probe
def ignored_classes(sandbox: Sandbox, trial: TrialRun | None) -> IgnoredClasses:
    """Read class weights and ignore_index of the loss where it is called with one label per sample."""
    if trial is None and sandbox.train_step is None:
        raise NotApplicable("the loss does not run")
    sandbox.ready_to_train()
    counts: dict[int, int] = {}
    classes = samples = 0
    by = ""
    for batch in sandbox.batches(BATCHES):
        recording = _recorded(sandbox, batch)
        for op in recording.ops:
            read = _read(recording, op, batch) if op.name in _LOSSES else None
            if read is not None:
                classes, labels, left_out, by = read
                samples += len(labels)
                for label in left_out:
                    counts[label] = counts.get(label, 0) + int((labels == label).sum())
    if not samples:
        raise NotApplicable("the loss is no cross entropy with one label per sample")
    return IgnoredClasses(classes, samples, {label: count for label, count in counts.items() if count}, by)


def _recorded(sandbox: Sandbox, batch: Batch) -> Recording:
    with required_run():
        return run_recorded(sandbox, batch, step=sandbox.train_step is not None)


def _read(recording: Recording, op: Op, batch: Batch) -> tuple[int, torch.Tensor, list[int], str] | None:
    """Return the number of classes, the labels, the classes left out and how; None where labels are of positions."""
    given = dict(zip(("input", "target", "weight", "size_average", "ignore_index"), op.args, strict=False)) | op.kwargs
    scores, labels, weight = (recording.tensor_of(given.get(name)) for name in ("input", "target", "weight"))
    if scores is None or labels is None or scores.dim() != 2 or labels.shape != (batch.size,):
        return None
    if labels.is_floating_point():
        return None
    classes, index = int(scores.shape[1]), int(given.get("ignore_index", -100))
    if 0 <= index < classes:
        return classes, labels, [index], f"ignore_index={index}"
    zero = (weight == 0).nonzero().flatten().tolist() if weight is not None else []
    return classes, labels, zero, "a class weight of 0"


@check(explains=("loss-metric-disagree", "wrong-loss-for-task"))
def class_ignored_by_loss(
    ignored: IgnoredClasses | None,
    sweep: LoaderSweep | None,
    weighting: ClassWeighting | None,
    ends: LastTokens | None,
    *,
    share: float = 0.01,  # of the influence of an average class; weights for balance make them equal; our choice
    counted: float = 0.95,  # of the tokens before the last one of each text, so that no prompt is left out; our choice
) -> Iterator[Finding]:
    """The loss ignores a class that occurs in the data, or gives it next to no weight.

    nbdebug records a few runs of your loss and reads `ignore_index` and the class weights of the cross entropy, where
    it gets one label per sample. Labels of positions (tokens, pixels) often have a padding class, and are left out. For
    any loss with an output for each class it compares the gradients that samples of each class have for equal outputs,
    times their number. Of a language model whose texts a mask tells from their padding, it looks at the last token of
    each: whether it is the same in all texts, and is never asked for although the token before it is.

    Why it matters: samples of an ignored class contribute nothing to the loss. The model never learns to predict the
    class, while the accuracy still counts it.

    What to try: use an ignore_index outside of the classes (the default is -100), and class weights near 1.
    """
    if ignored is None and weighting is None and ends is None:
        raise NotApplicable("the loss is no cross entropy with one label per sample")
    if ends is not None and min(ends.share, ends.before) >= counted and ends.counted == 0 and not ends.elsewhere:
        yield _never_ends(ends, counted)
    for label, count in (ignored.ignored if ignored is not None else {}).items():
        assert ignored is not None
        says = f"The loss ignores class {label} by {ignored.by}, although {count} of {ignored.samples} samples have it."
        yield _finding(says, label, count, 0.0, 0.0)
    known = set(ignored.ignored) if ignored is not None else set()
    if sweep is not None and weighting is not None and weighting.is_scored:
        yield from _weighed_away(sweep, weighting, known, share)


def _never_ends(ends: LastTokens, threshold: float) -> Finding:
    return Finding(
        f"The last token of {ends.texts} texts in `{ends.name}`, id {ends.token}, is never a target, although the "
        f"token before it is in {ends.before:.0%} of them: the model never learns where a text ends.",
        where="labels",
        severity="suspect",
        evidence={
            "token": ends.token,
            "share of texts that end in it": ends.share,
            "share of these that count it": ends.counted,
            "share that count the token before": ends.before,
            "threshold": threshold,
            "source": "documentation of transformers: labels of the padding token are set to -100",
        },
        remedies=(
            Remedy(
                "Ignore padding by its mask, and not by a token that also ends texts.",
                "labels = input_ids.masked_fill(attention_mask == 0, -100)",
            ),
        ),
    )


def _weighed_away(sweep: LoaderSweep, weighting: ClassWeighting, known: set[int], share: float) -> Iterator[Finding]:
    """Return the classes whose samples taken together hardly count."""
    labels = next(iter(sweep.class_labels().values()))
    pulls = {label: pull for label, pull in weighting.pulls.items() if label not in known}
    influence = {label: pull * int((labels == label).sum()) for label, pull in pulls.items()}
    for label, own in influence.items():
        others = [value for other, value in influence.items() if other != label]
        count, usual = int((labels == label).sum()), max(pulls.values())
        if count and others and own < share * sum(others) / len(others) and pulls[label] < share * usual:
            says = (
                f"The loss nearly ignores class {label}: for equal outputs, its samples ({count} of {len(labels)}) "
                f"have {pulls[label] / usual:.1g} times the gradient of others."
            )
            yield _finding(says, label, count, pulls[label] / usual, share)


def _finding(says: str, label: int, count: int, gradient: float, threshold: float) -> Finding:
    return Finding(
        says,
        where="loss_fn",
        severity="suspect",
        evidence={
            "class": label,
            "samples of the class": count,
            "gradient relative to others": gradient,
            "threshold": threshold,
            "source": "torch.nn.CrossEntropyLoss: ignore_index, weight; comparison within the run",
        },
        remedies=(
            Remedy(
                "Leave no class out.",
                "loss_fn = torch.nn.CrossEntropyLoss()",
                Patch("replace-loss", {"loss": "usual"}),
            ),
        ),
    )
