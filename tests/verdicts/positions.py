"""Verdicts about what a prediction sees of a sequence, and about attention."""

from __future__ import annotations

from typing import Any

from nbdebug.checks.passes.cached_decoding_differs import CachedDecoding
from nbdebug.checks.passes.masked_model_is_causal import ContextSides
from nbdebug.checks.passes.visible_tokens_predicted import MaskedTokens
from nbdebug.evidence.attention_scores import AttentionFacts, AttentionScores
from nbdebug.evidence.hidden_inputs import HiddenInputs
from nbdebug.evidence.order_response import OrderResponse
from nbdebug.evidence.position_influence import PositionInfluence, StreamInfluence
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.experiments.constant_weights import ConstantWeight
from nbdebug.experiments.discarded_results import Discarded
from nbdebug.experiments.masked_values import MaskedValues
from tests.verdicts.table import Table, minimal


def tokens(offset: int, target: float = 0.0, later: float = 0.0, earlier: float = 1.0, **facts: Any) -> StreamInfluence:
    """Return a sequence of 12 positions that the target equals at an offset, and what predictions see of it."""
    known = {"agreement": 1.0, "positions": 12, "predicted": 12, "is_tokens": True, **facts}
    return minimal(StreamInfluence, offset=offset, target=target, later=later, earlier=earlier, **known)


def seen(*streams: StreamInfluence, **facts: Any) -> PositionInfluence:
    """Return evidence of these sequences."""
    return minimal(PositionInfluence, streams=streams, mode="eval", **facts)


table = Table("causal-leak")
table.row("masked", "silent", seen(tokens(1)), None)
table.row("no mask", "bug", seen(tokens(1, 0.5, 0.5)), None)
table.row("one step ahead", "bug", seen(tokens(1, 0.5)), None)
table.row("an autoencoder", "silent", seen(tokens(0, 0.5, 0.5)), None)
table.row(
    "an autoencoder whose first output is cut off", "silent", seen(tokens(1, 0.5, 0.5, predicted=11, start=1)), None
)
table.row("a sentence in one vector", "silent", seen(tokens(1, 0.5, 0.5, is_summary=True)), None)
table.row("a source beside shifted targets", "silent", seen(tokens(1), tokens(1, 0.5, 0.5)), None)
table.pair("influence", lambda size: (seen(tokens(1, size, size)), None), {1.1e-3: "bug", 0.9e-3: "silent"})

table = Table("unshifted-targets")
table.row("the next token", "silent", seen(tokens(1)))
table.row("the same token", "suspect", seen(tokens(0, 0.5)))
table.row("the same token, and a shifted one", "silent", seen(tokens(0, 0.5), tokens(1)))
table.row("a token that is not seen", "silent", seen(tokens(0)))
table.row("an autoencoder", "silent", seen(tokens(0, 0.5, 0.5)))
table.row("each token alone", "silent", seen(tokens(0, 0.5, earlier=0.0)))
table.row("a series that is reconstructed", "note", seen(tokens(0, 0.5, is_tokens=False)))
table.row("two ahead", "suspect", seen(tokens(2, predicted=11)))
table.row("two ahead, and one ahead in another term", "silent", seen(tokens(2, predicted=11), several=True))
table.row("a series two ahead", "silent", seen(tokens(2, predicted=11, is_tokens=False)))
table.row("the end of the window", "suspect", seen(tokens(11, 0.5, predicted=1, is_tokens=False)))
table.row("behind the window", "silent", seen(tokens(11, predicted=1, is_tokens=False)))
table.row("the beginning to recall", "silent", seen(tokens(0, 0.5, predicted=1, is_tokens=False)))
table.row("half of it in the window", "silent", seen(tokens(10, 0.5, predicted=4, is_tokens=False, covered=0.5)))
table.row("a token to recall", "silent", seen(tokens(0, 0.5, 0.5, predicted=1)))
table.pair("influence", lambda size: seen(tokens(0, size)), {1.1e-3: "suspect", 0.9e-3: "silent"})


def attention(**facts: Any) -> AttentionScores:
    """Return one attention of 64 features."""
    return AttentionScores((minimal(AttentionFacts, depth=64, shape=(8, 4, 12, 12), **facts),), 8)


table = Table("attention-over-wrong-dim")
table.row("nothing recorded", "not applicable", None, None)
table.row("over the keys", "silent", attention(axis=-1, is_contracted=True), None)
table.row("over the queries", "suspect", attention(axis=-2, is_contracted=False), None)
table.row("not to be followed", "silent", attention(axis=-1, is_contracted=None), None)
table.row("no weights of one", "silent", None, RecordedStructure())
table.row("over one value", "bug", None, RecordedStructure((ConstantWeight("pool", (16, 9, 1), 2, 1),)))

table = Table("inverted-attention-mask")
table.row("neither attention nor padding", "not applicable", None, RecordedStructure())
table.row("padding is hidden", "silent", attention(words_seen=1.0, padding_seen=0.0), None)
table.row("nothing is hidden", "silent", attention(words_seen=1.0, padding_seen=1.0), None)
table.row("no padding", "silent", attention(), None)
table.row("words are hidden", "bug", attention(words_seen=0.0, padding_seen=1.0), None)
zeroed = MaskedValues("ids", "mul", "positions", 0.0, 1.0)
table.row("padding, and no mask", "silent", None, RecordedStructure(padded=("ids",)))
table.row("words are set to zero", "bug", None, RecordedStructure((), zeroed, ("ids",)))
table.pair("seen", lambda share: (attention(words_seen=0.0, padding_seen=share), None), {0.99: "bug", 0.97: "silent"})

table = Table("unscaled-attention")
table.row("scaled", "silent", attention(is_scaled=True, spread=5.0, effective=0.1))
table.row("not scaled, and small", "silent", attention(spread=0.5, effective=0.9))
table.row("not scaled", "suspect", attention(spread=5.0, effective=0.1))
table.pair("spread", lambda size: attention(spread=size, effective=0.3), {2.1: "suspect", 1.9: "silent"})
table.pair("effective", lambda share: attention(spread=3.0, effective=share), {0.49: "suspect", 0.51: "silent"})


def masked(visible: float, uncounted: float) -> MaskedTokens:
    """Return a quarter of masked tokens, and what the loss counts."""
    return minimal(MaskedTokens, token=4, share=0.25, visible=visible, uncounted=uncounted)


table = Table("visible-tokens-predicted")
table.row("nothing is hidden", "not applicable", None, None)
table.row("masked tokens count", "silent", masked(0.0, 0.0), None)
table.row("all tokens count", "silent", masked(0.75, 0.0), None)
table.row("visible tokens count", "suspect", masked(1.0, 1.0), None)
table.row("hidden patches count", "silent", None, HiddenInputs("image", 0.75, 1.0, 1.0, 0.0))
table.row("all patches count", "silent", None, HiddenInputs("image", 0.75, 1.0, 1.0, 0.25))
table.row("visible patches count", "suspect", None, HiddenInputs("image", 0.75, 1.0, 0.0, 1.0))
table.pair("visible", lambda share: (masked(share, 0.75), None), {0.51: "suspect", 0.49: "silent"})
table.pair("uncounted", lambda share: (masked(0.75, share), None), {0.21: "suspect", 0.19: "silent"})
table.pair(
    "compared", lambda share: (None, HiddenInputs("image", 0.5, share, 0.0, 1.0)), {0.91: "suspect", 0.89: "silent"}
)


def decoded(change: float, noise: float = 0.0) -> CachedDecoding:
    """Return outputs with a cache that differ this much."""
    return minimal(CachedDecoding, change=change, noise=noise, positions=16)


table = Table("cached-decoding-differs")
table.row("the same", "silent", decoded(1e-6))
table.row("token by token", "bug", minimal(CachedDecoding, by_token=0.5))
table.pair("change", decoded, {1.1e-2: "bug", 0.9e-2: "silent"})
table.pair("noises", lambda times: decoded(0.02 * times, 0.02), {11.0: "bug", 9.0: "silent"})


def ordered(**facts: Any) -> OrderResponse:
    """Return tags that only move with their tokens, which have an order, unless the facts say otherwise."""
    return minimal(OrderResponse, **{"per_position": True, "context": 0.5, "order": 50.0, "positions": 12, **facts})


table = Table("token-order-ignored")
table.row("moves along", "suspect", ordered())
table.row("one prediction per sequence", "note", ordered(per_position=False))
table.row("one row for all", "suspect", ordered(per_position=False, order=0.0, one_row=True))
table.pair("moved", lambda change: ordered(moved=change), {0.9e-4: "suspect", 1.1e-4: "silent"})
table.pair("context", lambda change: ordered(context=change), {1.1e-3: "suspect", 0.9e-3: "silent"})
table.pair("order", lambda size: ordered(order=size), {6.1: "suspect", 5.9: "silent"})
table.pair("placed", lambda share: ordered(placed=share), {0.49: "suspect", 0.51: "silent"})

table = Table("masked-model-is-causal")
table.row("both sides", "silent", minimal(ContextSides, before=0.5, behind=0.5))
table.pair("before", lambda change: minimal(ContextSides, before=change), {1.1e-3: "suspect", 0.9e-3: "silent"})
table.pair(
    "behind", lambda change: minimal(ContextSides, before=0.5, behind=change), {0.9e-6: "suspect", 1.1e-6: "silent"}
)


def heads(apart: float | None, shaken: float | None = None) -> AttentionScores:
    """Return the scores of four heads, and after a small change of the weights."""
    again = (minimal(AttentionFacts, heads=4, apart=shaken),) if shaken is not None else ()
    return AttentionScores((minimal(AttentionFacts, heads=4, apart=apart),), 8, again)


table = Table("identical-attention-heads")
table.row("one head", "not applicable", heads(None))
table.row("the same weights", "bug", heads(0.0, 0.0))
table.row("copies at the start", "suspect", heads(0.0, 0.01))
table.pair("apart", heads, {0.9e-4: "suspect", 1.1e-4: "silent"})


def thrown(count: int = 1) -> RecordedStructure:
    """Return a result that is thrown away so many times."""
    return RecordedStructure(discarded=(Discarded("masked_fill", "block", (4, 9, 32), count),) * (count > 0))


table = Table("discarded-result")
table.row("all are used", "silent", RecordedStructure())
table.row("a sum with itself", "suspect", RecordedStructure(doubled=(Discarded("add", "block", (4, 9, 32)),)))
table.pair("calls", thrown, {1: "suspect", 0: "silent"})
