"""An attention mask with the wrong meaning of True."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.attention_scores import AttentionScores
from nbdebug.evidence.recorded_structure import RecordedStructure
from nbdebug.experiments.masked_values import MaskedValues

__all__ = ["inverted_attention_mask"]


@check(
    explains=(
        "padding-dominates", "inputs-ignored", "non-finite-forward", "worse-than-baseline", "training-fails",
        "token-order-ignored",
    )
)  # fmt: skip
def inverted_attention_mask(
    scores: AttentionScores | None,
    structure: RecordedStructure | None,
    *,
    seen: float = 0.98,  # of the padding and none of the words; our choice: a correct mask shows the exact opposite
) -> Iterator[Finding]:
    """A mask hides the words and keeps the padding.

    nbdebug finds the padding of the inputs, and reads from the scores or the masks of each attention which keys its
    queries may see. It also looks for values with one vector per token, of any layer, that a mask leaves at the padding
    and sets to zero at every word.

    Why it matters: attention averages over padding vectors, which are the same in every sample, so that no position
    learns about another one. The word itself still passes by the residual connection, so that the loss falls a little.

    What to try: `key_padding_mask` of `nn.MultiheadAttention` is True for padding; a boolean `attn_mask` of
    `scaled_dot_product_attention` and `attention_mask` of transformers are True for words.
    """
    masked = structure.masked if structure is not None else None
    if scores is None and (structure is None or not structure.padded):
        raise NotApplicable("there is no attention, and no input looks like padded sequences")
    known = [
        (facts, facts.words_seen, facts.padding_seen)
        for facts in (scores.attentions if scores is not None else ())
        if facts.words_seen is not None and facts.padding_seen is not None
    ]
    found = [one for one in known if one[2] >= seen and one[1] <= 1 - seen]
    if not found and masked is not None and masked.words <= 1 - seen and masked.padding > masked.words:
        yield _zeroed(masked, seen)
    for facts, words, padding in found[:1]:
        yield Finding(
            f"The mask of `{facts.module or 'the attention'}` is inverted: queries may see {words:.0%} of "
            f"the words of `{facts.padded}` and {padding:.0%} of its padding.",
            where=facts.module,
            severity="bug",
            evidence={
                "attentions": len(found),
                "share of words seen": words,
                "share of padding seen": padding,
                "threshold": seen,
                "source": "documentation of torch.nn.MultiheadAttention, key_padding_mask",
            },
            remedies=(
                Remedy(
                    "Invert the mask.",
                    "attention(x, x, x, key_padding_mask=tokens == pad_id)",
                    Patch("invert-mask"),
                ),
            ),
            exhibit=Bars(("words", "padding"), (words, padding), title="Keys that are seen"),
        )


def _zeroed(masked: MaskedValues, threshold: float) -> Finding:
    return Finding(
        f"The mask in `{masked.module or 'model'}` (`{masked.op}`) is inverted: its result is zero at every word of "
        f"`{masked.padded}` and not at {masked.padding:.0%} of the padding.",
        where=masked.module or "model",
        severity="bug",
        evidence={
            "operation": masked.op,
            "share of words kept": masked.words,
            "share of padding kept": masked.padding,
            "threshold": threshold,
            "source": "documentation of torch.Tensor.masked_fill: it fills where the mask is True",
        },
        remedies=(Remedy("Invert the mask.", "x = x * (tokens != pad_id).unsqueeze(-1)"),),
        exhibit=Bars(("words", "padding"), (masked.words, masked.padding), title="Values that are kept"),
    )
