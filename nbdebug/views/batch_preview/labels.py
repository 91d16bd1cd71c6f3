"""Targets and predictions in words: classes by their names, several classes, numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from nbdebug.views.batch_preview.parts import text_of

__all__ = ["Answer", "answers_in", "predictions_in"]

Named = Callable[[int], str]


@dataclass(frozen=True)
class Answer:
    """One sample's target or prediction: in words, as classes, with the confidence where there is one."""

    text: str
    classes: tuple[int, ...] | None = None
    confidence: float | None = None


def answers_in(target: torch.Tensor, name: Named) -> list[Answer] | None:
    """Read the targets of a batch, one a sample; None where they are maps or sequences, which are shown as such."""
    values = target.detach().cpu()
    values = values[:, 0] if values.dim() == 2 and values.shape[1] == 1 else values
    if values.dim() == 1:
        whole = not values.is_floating_point() or bool(((values == 0) | (values == 1)).all())
        if whole and not values.is_complex():
            return [Answer(name(int(v)), (int(v),)) for v in values]
        return [Answer(text_of(v)) for v in values]
    if values.dim() != 2 or not (values.is_floating_point() or values.dtype == torch.bool):
        return None
    if bool(((values == 0) | (values == 1)).all()):
        hot = [tuple(int(i) for i in row.nonzero().flatten()) for row in values]
        return [Answer(", ".join(map(name, row)) or "none", row) for row in hot]
    if _is_distribution(values):
        return [Answer(_mixture(row, name), (int(row.argmax()),)) for row in values]
    return [Answer(text_of(row)) for row in values]


def predictions_in(predicted: torch.Tensor, target: torch.Tensor, kind: str, scale: str, name: Named) -> list[Answer]:
    """Read the outputs of a model, one a sample, for a task of this kind; empty where there is none a sample."""
    values = predicted.detach().float().cpu()
    if kind == "classification" and values.dim() == 2:
        shares = {"probabilities": values, "log-probabilities": values.exp()}.get(scale, values.softmax(1))
        best = shares.max(1)
        return [Answer(name(int(i)), (int(i),), float(p)) for p, i in zip(best.values, best.indices, strict=True)]
    if kind in ("binary", "multilabel") and values.dim() <= 2:
        shares = values if scale == "probabilities" else values.sigmoid()
        return [_binary(row, name) for row in shares.reshape(len(shares), -1)]
    if kind in ("regression", "reconstruction") and values.dim() <= 2 and target.shape[0] == len(values):
        return [Answer(text_of(row)) for row in values]
    return []


def _binary(shares: torch.Tensor, name: Named) -> Answer:
    if len(shares) == 1:
        yes = float(shares[0])
        return Answer(name(int(yes > 0.5)), (int(yes > 0.5),), max(yes, 1 - yes))
    hot = tuple(int(i) for i in (shares > 0.5).nonzero().flatten())
    return Answer(", ".join(map(name, hot)) or "none", hot, float(torch.maximum(shares, 1 - shares).min()))


def _is_distribution(values: torch.Tensor) -> bool:
    return bool((values >= 0).all()) and float((values.sum(1) - 1).abs().max()) < 1e-3


def _mixture(row: torch.Tensor, name: Named) -> str:
    top = row.topk(min(2, len(row)))
    pairs = zip(top.values, top.indices, strict=True)
    return ", ".join(f"{float(share):.0%} {name(int(i))}" for share, i in pairs if share > 0.005)
