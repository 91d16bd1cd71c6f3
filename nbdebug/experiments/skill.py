"""Skill: how well held-out samples are predicted, scaled so that a constant prediction is 0 and a perfect one is 1.

Losses of different kinds cannot be compared; a metric of the predictions can. Where the loss of the user does not want
what the metric measures, or outputs and targets match no metric, there is no skill and only the loss is left to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from nbdebug.errors import Cancelled, OutOfTime
from nbdebug.experiments.decoded_outputs import decoded
from nbdebug.experiments.learning_curve import Fit
from nbdebug.experiments.tape import answers_on_tape, fit_on_tape
from nbdebug.experiments.task import class_dim
from nbdebug.experiments.train_briefly import fit_asked_for
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["Metric", "Pairs", "metric_of", "predictions_of", "skill_of"]

Metric = Literal["outputs", "tape", ""]

AGREED = 0.5  # of the samples; the labels of the others are ignored, or weighted against
ONE_WAY = 0.8  # of those that count; chance moves half of them, and margins or smoothing turn a few
WEIGHTED = 0.1  # so much further above chance is the balanced accuracy of a training that weights its classes

Pairs = list[tuple[torch.Tensor, torch.Tensor]]


def metric_of(sandbox: Sandbox, batch: Batch) -> Metric:
    """Say where a metric can be read: off outputs and targets, off the tape, or nowhere.

    The user's loss has to be lower where the metric is better, or the metric is not what the training is for.
    """
    try:
        if not sandbox.is_loss_known:
            return "tape" if fit_on_tape(sandbox, batch) is not None else ""
        if fit_asked_for(sandbox, batch) is not None and _wants_the_labels(sandbox, batch):
            return "outputs"
    except (Cancelled, OutOfTime):
        raise
    except Exception:  # outputs that change their shape, or a loss that accepts no other outputs
        pass
    return "tape" if fit_on_tape(sandbox, batch) is not None else ""


def _wants_the_labels(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether a higher score of the label moves the loss one way for nearly every sample.

    Not so for actions with weights of both signs, nor for features that a loss compares with centers of its own.
    """
    outcome = sandbox.run(batch.clone())
    if outcome.predicted is None or not outcome.predicted.requires_grad:
        return True
    target, dim = batch.target, class_dim(outcome.predicted, batch.target)
    if dim is None or target.is_floating_point() or target.dim() != outcome.predicted.dim() - 1:
        return True
    (gradient,) = torch.autograd.grad(outcome.loss.sum(), [outcome.predicted], allow_unused=True)
    if gradient is None:
        return False
    at_label = gradient.gather(dim, target.clamp_min(0).unsqueeze(dim).long()).squeeze(dim)[target >= 0]
    falls, rises = (float(way.double().mean()) for way in (at_label < 0, at_label > 0))
    return max(falls, rises) >= max(AGREED, ONE_WAY * (falls + rises))


def skill_of(sandbox: Sandbox, batches: Sequence[Batch], metric: Metric) -> Fit | None:
    """Return the metric over all these samples in eval or training mode, whichever is better; None without a metric."""
    if metric == "tape":
        return _on_tape(sandbox, batches)
    with torch.no_grad():
        found = [fit for training in (False, True) if (fit := _in_mode(sandbox, batches, training)) is not None]
    return max(found, key=lambda fit: fit.above_chance, default=None)


def _on_tape(sandbox: Sandbox, batches: Sequence[Batch]) -> Fit | None:
    answers = [(found, batch.size) for batch in batches if (found := answers_on_tape(sandbox, batch)) is not None]
    if answers and all(found.is_classes for found, _ in answers):
        return _right([(found.predicted.flatten(), found.target.long().flatten()) for found, _ in answers])
    fits = [(fit, size) for found, size in answers if (fit := found.fit) is not None]
    total = sum(size for _, size in fits)
    if not fits or len({fit.measure for fit, _ in fits}) > 1:
        return None
    value, chance = (sum(getattr(fit, name) * size for fit, size in fits) / total for name in ("value", "chance"))
    return Fit(fits[0][0].measure, value, chance)


def _in_mode(sandbox: Sandbox, batches: Sequence[Batch], training: bool) -> Fit | None:
    found = predictions_of(sandbox, batches, training=training)
    if found is None:
        return None
    return _explained(found[1]) if found[0] == "numbers" else _right(found[1])


@torch.no_grad()
def predictions_of(sandbox: Sandbox, batches: Sequence[Batch], *, training: bool = False) -> tuple[str, Pairs] | None:
    """Return "classes" or "numbers", and predicted and true ones of each batch; None where they cannot be told."""
    kinds, pairs = set[str](), Pairs()
    with sandbox.mode(training):
        for batch in batches:
            outcome = sandbox.run(batch.clone())
            kind, pair = decoded(sandbox, outcome, batch)
            if pair is None:
                return None
            kinds.add(kind)
            pairs.append(pair)
    return (kinds.pop(), pairs) if len(kinds) == 1 and pairs else None


def _right(pairs: Pairs) -> Fit | None:
    """Return the accuracy, or the balanced accuracy where that is further above chance: classes may be weighted."""
    said, wanted = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    if wanted.numel() == 0:
        return None
    classes, counts = wanted.unique(return_counts=True)
    right = (said == wanted).double()
    plain = Fit("accuracy", float(right.mean()), float(counts.max() / wanted.numel()))
    if len(classes) < 2:
        return None  # nothing but one class was held out
    each = torch.stack([right[wanted == label].mean() for label in classes])
    balanced = Fit("balanced accuracy", float(each.mean()), 1 / len(classes))
    return balanced if balanced.above_chance > plain.above_chance + WEIGHTED else plain


def _explained(pairs: Pairs) -> Fit | None:
    if len({tuple(part.shape[1:]) for pair in pairs for part in pair}) != 1:
        return None
    got, wanted = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    variance = float((wanted - wanted.mean(0)).square().sum())
    if variance <= 0 or len(wanted) < 2:
        return None
    return Fit("explained variance", max(-1.0, 1 - float((wanted - got).square().sum()) / variance), 0.0)
