"""The error of every sample: a model run in eval mode, on a copy, over a bounded draw of a loader."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nbdebug.core.control import Control
from nbdebug.errors import BadInput, NotApplicable
from nbdebug.experiments.task import class_dim, task_of
from nbdebug.sandbox import Sandbox, guarded, make_sandbox
from nbdebug.sandbox.state_snapshot import StateSnapshot
from nbdebug.setup import Batch, Feed, Setup
from nbdebug.setup.feature_rows import Columns, columns_of, joined
from nbdebug.setup.loss import main_output
from nbdebug.setup.read_samples import over_all
from nbdebug.setup.tensor_memory import array_of

__all__ = ["Judged", "Metric", "Scores", "judged", "scored"]

Metric = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Judged:
    """One batch: an error and a hardness for each sample, and answers where each sample has one class."""

    measure: str
    errors: torch.Tensor
    hardness: torch.Tensor | None = None
    answers: torch.Tensor | None = None
    targets: torch.Tensor | None = None
    probabilities: torch.Tensor | None = None


@dataclass(frozen=True)
class Scores:
    """The errors of the samples that were drawn from one loader, with what was answered where that is one class.

    `hardness` ranks samples that are wrong alike: the surprise at the right answer, or the error itself. `rows` are the
    inputs as numbers, one row a sample, under the names in `columns`.
    """

    split: str
    measure: str
    errors: np.ndarray
    hardness: np.ndarray
    indices: np.ndarray
    total: int | None
    answers: np.ndarray | None = None
    targets: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    rows: np.ndarray | None = None
    columns: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """The error of the whole split."""
        return float(self.errors.mean())


def scored(
    setup: Setup,
    feed: Feed,
    *,
    split: str,
    metric: Metric | None = None,
    samples: int = 4096,
    seconds: float = 30.0,
    control: Control | None = None,
) -> Scores:
    """Judge up to so many samples, drawn at random over the whole data set, within about so many seconds."""
    control = control or Control()
    live = setup.live_parts()
    return guarded(
        lambda: _scored(setup, feed, split, metric, samples, seconds, control),
        live,
        control,
        snapshot=StateSnapshot(*live),
    )


def _scored(
    setup: Setup, feed: Feed, split: str, metric: Metric | None, samples: int, seconds: float, control: Control
) -> Scores:
    sandbox = make_sandbox(setup, control)
    sandbox.model.eval()
    parts: list[Judged] = []
    indices: list[np.ndarray] = []
    columns: list[Columns] = []
    seen, begun = 0, time.monotonic()
    for draw in over_all(feed, setup.wrap, begun + seconds, control.poll):
        if draw.batch is None:
            continue
        with torch.no_grad():
            parts.append(judged(sandbox, draw.batch.to(sandbox.device), metric))
        count = len(parts[-1].errors)
        indices.append(np.asarray(draw.indices if len(draw.indices) == count else range(seen, seen + count)))
        columns.append(columns_of(draw.batch))
        seen += count
        control.progress(min(1.0, seen / samples), f"evaluating the samples of {split}")
        if seen >= samples or time.monotonic() - begun > seconds:
            break
    if not parts:
        raise NotApplicable(f"{split} yields no batch; see empty-loader")
    return _together(split, feed.total, parts, np.concatenate(indices), columns)


def _together(
    split: str, total: int | None, parts: list[Judged], indices: np.ndarray, columns: list[Columns]
) -> Scores:
    errors = _joined([one.errors for one in parts])
    assert errors is not None
    _refuse_non_finite(errors, split)
    hardness = _joined([one.hardness for one in parts])
    rows, names, _ = joined(columns)
    return Scores(
        split,
        parts[0].measure,
        errors,
        errors if hardness is None else hardness,
        indices,
        total,
        _joined([one.answers for one in parts]),
        _joined([one.targets for one in parts]),
        _joined([one.probabilities for one in parts]),
        rows if len(rows) == len(errors) else None,
        names,
    )


def judged(sandbox: Sandbox, batch: Batch, metric: Metric | None) -> Judged:
    """Return the error of each sample, and its answer and target where these are single classes."""
    output = sandbox.forward(batch)
    if metric is not None:
        return Judged(getattr(metric, "__name__", type(metric).__name__), _by_metric(metric, output, batch))
    predicted, target, task = main_output(output), batch.target, task_of(output, batch)
    if predicted is not None and task.kind == "classification":
        return _misclassified(predicted, target, task.scale)
    if predicted is not None and task.kind in ("binary", "multilabel"):
        return _misjudged(predicted.reshape(target.shape), target > 0.5, task.scale)
    alike = predicted is not None and isinstance(target, torch.Tensor) and predicted.numel() == target.numel()
    if predicted is not None and alike and task.kind in ("regression", "reconstruction"):
        apart = (predicted.reshape(target.shape) - target).abs().double().square()
        return Judged("squared error", apart.reshape(len(apart), -1).mean(1))
    raise BadInput(
        f"outputs and targets match no standard task: {task.reason}",
        where="metric",
        expected="a function metric(output, target) that returns one error per sample",
        do="pass metric=…, such as lambda output, target: (output - target).abs().mean(1)",
    )


def _misclassified(predicted: torch.Tensor, target: torch.Tensor, scale: str) -> Judged:
    dim = class_dim(predicted, target)
    assert dim is not None
    wanted = target.argmax(dim) if target.shape == predicted.shape else target.long()
    answers = predicted.argmax(dim)
    counted = (wanted >= 0).double().reshape(len(wanted), -1)  # negative ids are ignored by custom
    wrong = (answers != wanted).double().reshape(len(wanted), -1) * counted
    errors = wrong.sum(1) / counted.sum(1).clamp(min=1)
    if wanted.dim() != 1 or bool((wanted < 0).any()):
        return Judged("error rate", errors)
    chances = _chances(predicted.double(), dim, scale)
    surprise = -chances.gather(1, wanted[:, None])[:, 0].clamp(min=1e-12).log()
    return Judged("error rate", errors, surprise, answers, wanted, chances)


def _chances(predicted: torch.Tensor, dim: int, scale: str) -> torch.Tensor:
    if scale == "probabilities":
        return predicted
    return predicted.exp() if scale == "log-probabilities" else predicted.softmax(dim)


def _misjudged(predicted: torch.Tensor, right: torch.Tensor, scale: str) -> Judged:
    """Judge answers of yes and no: one a sample, or several."""
    yes = predicted.double() if scale == "probabilities" else predicted.double().sigmoid()
    wrong = ((yes > 0.5) != right).double().reshape(len(right), -1)
    surprise = -torch.where(right, yes, 1 - yes).clamp(min=1e-12).log().reshape(len(right), -1).mean(1)
    if right.numel() != len(right):
        return Judged("error rate", wrong.mean(1), surprise)
    yes = yes.reshape(-1)
    chances = torch.stack([1 - yes, yes], 1)
    return Judged("error rate", wrong.mean(1), surprise, (yes > 0.5).long(), right.reshape(-1).long(), chances)


def _by_metric(metric: Metric, output: Any, batch: Batch) -> torch.Tensor:
    errors = torch.as_tensor(metric(output, batch.target)).detach()
    if errors.dim() != 1 or len(errors) != batch.size:
        raise BadInput(
            f"it returned a value of shape {tuple(errors.shape)} for a batch of {batch.size} samples",
            where="metric",
            expected="one error per sample; lower is better",
            do="omit the mean over the batch",
        )
    return errors


def _joined(parts: list[torch.Tensor | None]) -> np.ndarray | None:
    kept = [_array(part) for part in parts if part is not None]
    return np.concatenate(kept) if len(kept) == len(parts) else None


def _array(part: torch.Tensor) -> np.ndarray:
    return array_of((part.double() if part.is_floating_point() else part).cpu())


def _refuse_non_finite(errors: np.ndarray, split: str) -> None:
    bad = int((~np.isfinite(errors)).sum())
    if bad:
        raise BadInput(
            f"{bad} of {len(errors)} samples have a NaN error",
            where=split,
            expected="finite outputs",
            do="nbdebug.diagnose locates the first NaN",
        )
