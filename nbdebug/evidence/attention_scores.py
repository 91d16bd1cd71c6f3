"""How each attention of the model normalizes, scales and masks its scores, found by its structure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.attention import Attention, attentions
from nbdebug.experiments.padding import Padded, padded_inputs
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import user_code

__all__ = ["AttentionFacts", "AttentionScores", "attention_scores"]

SAMPLES = 16
FEW = 4  # keys of a query, below which their scores say nothing about their scale


@dataclass(frozen=True)
class AttentionFacts:
    """One attention: the axis of its softmax, its scale, and which keys its masks let queries see.

    `axis` is that of the softmax, from the end, of weights of `shape`; `is_contracted` whether the product with the
    values sums over it, None where that is not seen. `spread` is the median standard deviation of a query's scores, and
    `effective` the share of its keys that it effectively attends to (the exponential of the entropy). `words_seen` and
    `padding_seen` are the shares of the data and of the padding that queries of the same kind may see.
    """

    module: str
    op: str
    shape: tuple[int, ...]
    axis: int
    is_contracted: bool | None
    depth: int | None
    is_scaled: bool
    spread: float | None = None
    effective: float | None = None
    words_seen: float | None = None
    padding_seen: float | None = None
    padded: str = ""


@dataclass(frozen=True)
class AttentionScores:
    """Every attention on the way to the loss."""

    attentions: tuple[AttentionFacts, ...]
    samples: int


@probe
def attention_scores(sandbox: Sandbox, trial: TrialRun | None) -> AttentionScores:
    """Record one run and read the softmax, the scale and the masks of every attention."""
    if trial is not None:
        require_run(trial)
    batch = sandbox.batch().head(SAMPLES)
    padded = [found for found in padded_inputs(batch) if found.share > 0]
    for training in (False, True):  # some programs have a loss in one mode only
        found: list[AttentionFacts] | None = None
        with sandbox.mode(training), user_code(passing=(NotApplicable,) if training else ()):
            step = sandbox.train_step is not None
            recording = run_recorded(sandbox, batch, step=step, hold_modes=True)
            found = [_facts(attention, padded, batch.size) for attention in attentions(recording)]
        if found:
            return AttentionScores(tuple(found), batch.size)
    raise NotApplicable("no softmax of a product of two values is multiplied with others, so there is no attention")


def _facts(attention: Attention, padded: list[Padded], size: int) -> AttentionFacts:
    spread, effective = _scale(attention)
    seen = next(_seen(attention, padded, size), (None, None, ""))
    return AttentionFacts(
        attention.module, attention.op, attention.shape, attention.axis - len(attention.shape),
        attention.is_contracted, attention.depth, attention.is_scaled, spread, effective, *seen,
    )  # fmt: skip


def _scale(attention: Attention) -> tuple[float | None, float | None]:
    """Return the median spread of a query's scores, and to how many of its keys it attends."""
    scores, allowed = attention.scores, attention.allowed
    if scores is None or allowed is None:
        return None, None
    scores = scores.detach().double()
    allowed = allowed.expand_as(scores) & torch.isfinite(scores)
    counts = allowed.sum(-1)
    kept = counts >= FEW
    if not bool(kept.any()):
        return None, None
    known = scores.where(allowed, torch.zeros_like(scores))
    mean = known.sum(-1) / counts.clamp(min=1)
    variance = ((known - mean[..., None]).where(allowed, torch.zeros_like(scores)) ** 2).sum(-1) / counts.clamp(min=1)
    weights = scores.masked_fill(~allowed, -math.inf)[kept].softmax(-1)
    entropy = -(weights * weights.clamp(min=1e-30).log()).sum(-1)
    return float(variance[kept].sqrt().median()), float((entropy.exp() / counts[kept]).median())


def _seen(attention: Attention, padded: list[Padded], size: int) -> Iterator[tuple[float, float, str]]:
    """Yield for each padded input as long as the keys what share of words and of padding may be seen."""
    allowed = attention.allowed
    if allowed is None or allowed.dim() < 3 or allowed.shape[0] % size:
        return
    queries, keys = allowed.shape[-2:]
    allowed = allowed.reshape(size, -1, queries, keys).any(1).cpu()
    for entry in padded:
        if entry.longest != keys:
            continue
        words = entry.is_data
        rows = (words.any(1) & ~words.all(1)).nonzero().flatten()
        if len(rows) < 2:
            continue
        square = queries == keys
        past = torch.ones(queries, keys, dtype=torch.bool).tril() if square else torch.ones(queries, keys).bool()
        both = []
        for key in (words, ~words):
            asked = key[rows, :, None] if square else torch.ones(len(rows), queries, 1, dtype=torch.bool)
            both.append(float(allowed[rows][asked & key[rows, None, :] & past].double().mean()))
        yield both[0], both[1], entry.name
