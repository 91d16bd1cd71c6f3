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
from nbdebug.experiments.attention import BLOCKED, FUSED, Attention, attentions
from nbdebug.experiments.locate_module import jittered
from nbdebug.experiments.padding import Padded, padded_inputs
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import user_code

__all__ = ["AttentionFacts", "AttentionScores", "attention_scores"]

SAMPLES = 16
NONE = "no softmax of a product of two values is multiplied with others, so there is no attention"
ALIKE = 1e-4  # of the spread of scores; float32 rounding is below
TOO_FLAT = 1e-6  # a standard deviation of scores below which they are all the same, as with zero weights
FEW = 4  # keys of a query, below which their scores say nothing about their scale


@dataclass(frozen=True)
class AttentionFacts:
    """One attention: the axis of its softmax, its scale, and which keys its masks let queries see.

    `axis` is that of the softmax, from the end, of weights of `shape`; `is_contracted` whether the product with the
    values sums over it, None where that is not seen. `spread` is the median standard deviation of a query's scores, and
    `effective` the share of its keys that it effectively attends to (the exponential of the entropy). `words_seen` and
    `padding_seen` are the shares of the data and of the padding that queries of the same kind may see. Of several
    `heads`, `apart` is how far the scores of the most different one are from the first's, relative to their spread.
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
    heads: int = 1
    apart: float | None = None


@dataclass(frozen=True)
class AttentionScores:
    """Every attention on the way to the loss."""

    attentions: tuple[AttentionFacts, ...]
    samples: int
    shaken: tuple[AttentionFacts, ...] = ()  # the same after a small change of all weights, where heads are alike


@probe(ops=("softmax", *FUSED))
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
            shaken = list[AttentionFacts]()
            if any(facts.apart is not None and facts.apart < ALIKE for facts in found):
                jittered(sandbox.model)
                again = run_recorded(sandbox, batch, step=step, hold_modes=True)
                shaken = [_facts(attention, padded, batch.size) for attention in attentions(again)]
        if found:
            return AttentionScores(tuple(found), batch.size, tuple(shaken))
    raise NotApplicable(NONE)


def _facts(attention: Attention, padded: list[Padded], size: int) -> AttentionFacts:
    spread, effective = _scale(attention)
    words, padding, name = next(_seen(attention, padded, size), (None, None, ""))
    return AttentionFacts(
        attention.module, attention.op, attention.shape, attention.axis - len(attention.shape),
        attention.is_contracted, attention.depth, attention.is_scaled, spread, effective, words, padding, name,
        *_heads(attention, size),
    )  # fmt: skip


def _heads(attention: Attention, size: int) -> tuple[int, float | None]:
    """Return the number of heads, and how far their scores are apart, relative to the spread of a query's scores."""
    scores = attention.heads if attention.heads is not None else _by_heads(attention, size)
    if scores is None or scores.shape[1] < 2 or scores.shape[-1] < FEW:
        return 1, None
    scores = scores.detach().double()
    scores = scores.where(torch.isfinite(scores) & (scores > BLOCKED), torch.zeros_like(scores))
    spread = float(scores.std(-1).median())
    if spread < TOO_FLAT:
        return int(scores.shape[1]), None
    return int(scores.shape[1]), float((scores - scores[:, :1]).abs().amax((0, 2, 3)).max()) / spread


def _by_heads(attention: Attention, size: int) -> torch.Tensor | None:
    """Return scores as (samples, heads, queries, keys), where the axes can be told."""
    scores = attention.scores
    if scores is None or attention.axis != scores.dim() - 1:
        return None
    if scores.dim() == 4 and scores.shape[0] == size:
        return scores
    is_flat = scores.dim() == 3 and scores.shape[0] > size and scores.shape[0] % size == 0
    return scores.unflatten(0, (size, -1)) if is_flat else None


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
