"""A masked language model with a causal mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.checks.passes.visible_tokens_predicted import MaskedTokens
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.position_influence import few_samples
from nbdebug.experiments.batch_dim import change_of
from nbdebug.experiments.compared_positions import compared, prediction_of, sources_of
from nbdebug.experiments.locate_module import jittered
from nbdebug.experiments.positions import Stream, exchanged, streams
from nbdebug.experiments.tape import Tape, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import user_code

__all__ = ["ContextSides", "context_sides", "masked_model_is_causal"]


@dataclass(frozen=True)
class ContextSides:
    """How much predictions of masked tokens change with the tokens before and behind them, relative to their spread.

    `share` of the tokens are the mask token, whose targets count.
    """

    name: str
    before: float
    behind: float
    share: float


@probe
def context_sides(sandbox: Sandbox, tokens: MaskedTokens) -> ContextSides:
    """Exchange the tokens of each half for others, and compare the predictions in the other half."""
    if tokens.uncounted > 0.5 or tokens.visible > 0.5:
        raise NotApplicable("the loss does not count the masked tokens; see visible-tokens-predicted")
    jittered(sandbox.model)
    batch = few_samples(sandbox)
    for training in (False, True):  # some programs have a loss in one mode only
        with sandbox.mode(training), user_code(passing=(NotApplicable,) if training else ()):
            tape = record(sandbox, batch, hold_modes=True)
            used = [s for s in streams(batch, batch.size) if s.name in sources_of(tape) and not s.is_real]
            held = [s for s in used if bool((s.raw == tokens.token).any()) and s.time_dim == 1]
            if held:
                return ContextSides(held[0].name, *_sides(sandbox, batch, tape, held[0]), tokens.share)
    raise NotApplicable("the mask token stands in no sequence of the batch")


def _sides(sandbox: Sandbox, batch: Batch, tape: Tape, stream: Stream) -> tuple[float, float]:
    length, rows = stream.length, range(stream.raw.shape[0])
    cut = length // 2
    for seen in compared(tape, batch.size):
        if seen.prediction.shape[1] != length:
            continue
        changes = []
        for place in (slice(0, 0), slice(0, cut), slice(cut, length)):
            changed = exchanged(batch, stream, dict.fromkeys(rows, place))
            again = record(sandbox, changed, step=tape.is_step, seed=tape.seed, hold_modes=True)
            after = prediction_of(again)
            if after.shape != prediction_of(tape).shape:
                raise NotApplicable("the program takes another course with other tokens")
            changes.append(seen.read(change_of(prediction_of(tape), after)).amax(-1))
        if float(changes[0].max()) > 0:
            raise NotApplicable("the prediction is another one in a second run, so nothing can be compared")
        return float(changes[1][:, cut:].max()), float(changes[2][:, :cut].max())
    raise NotApplicable("there is no prediction for each position")


@check(explains=("worse-than-baseline",))
def masked_model_is_causal(
    sides: ContextSides,
    *,
    before: float = 1e-3,  # of the predictions' standard deviation; our choice
    behind: float = 1e-6,  # of the same; exactly 0 behind a causal mask
) -> Iterator[Finding]:
    """A masked language model sees only the tokens before the masked one.

    Where a token stands scattered in the place of those that are to be predicted, as a mask token does, nbdebug
    exchanges the tokens of each half and looks whether predictions in the other half change.

    Why it matters: a masked token is to be guessed from both sides. With a causal mask half of the context is hidden,
    and an encoder built on it reads in one direction only.

    What to try: leave out the causal mask (`is_causal`, `attn_mask`, a decoder where an encoder was meant), or train
    the model to predict the next token.
    """
    if sides.before <= before or sides.behind > behind:
        return
    yield Finding(
        f"{sides.share:.0%} of the tokens in `{sides.name}` are masked and predicted, but the model sees only what "
        f"stands before them: tokens behind change a prediction by {sides.behind:.1e}, tokens before by "
        f"{sides.before:.1e}.",
        where="model",
        severity="suspect",
        evidence={
            "change by tokens before": sides.before,
            "change by tokens behind": sides.behind,
            "share of masked tokens": sides.share,
            "threshold": behind,
            "source": "Devlin et al. 2019, BERT, section 3.1: masked tokens are predicted from both sides",
        },
        remedies=(
            Remedy("Leave out the causal mask.", "F.scaled_dot_product_attention(q, k, v, attn_mask=padding_mask)"),
        ),
    )
