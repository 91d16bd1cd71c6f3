"""Targets that the model only has to copy."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy, Severity
from nbdebug.core.registry import check
from nbdebug.evidence.position_influence import PositionInfluence, StreamInfluence

__all__ = ["unshifted_targets"]

SHIFT = Remedy("Shift the targets by one step.", "inputs, targets = tokens[:, :-1], tokens[:, 1:]")
ONCE = Remedy("Shift once: in the data or in the loss.", "labels = input_ids.clone()  # where the model shifts them")
BEHIND = Remedy("Begin the target behind the window.", "x, y = series[i : i + n], series[i + n : i + n + ahead]")


@check(explains=("initial-loss-off", "loss-metric-disagree", "target-leaks-into-inputs"))
def unshifted_targets(
    seen: PositionInfluence,
    *,
    influence: float = 1e-3,  # of the predictions' standard deviation; exactly 0 where masked; our choice
) -> Iterator[Finding]:
    """The targets are values that the model sees, or lie one step too far ahead.

    nbdebug looks for the entry of the batch, and the offset, at which the targets equal the inputs, and exchanges
    positions to see which of them each prediction depends on. A model whose predictions depend on no later position is
    taken to be causal: then its targets should be the next step. An autoencoder, whose targets are its inputs as well,
    sees all positions; a decoder that gets the shifted targets as a second input is what it should be.

    Why it matters: a prediction that can be copied from the input is learned within a few steps, and the model has
    learned nothing else. Labels that are shifted in the data and again in the model skip a token.

    What to try: shift the targets by one step, in one place only; begin the target of a forecast behind the window.
    """
    if any(stream.is_shifted and stream.ahead <= 1 for stream in seen.streams):
        return  # one input is what a decoder should get
    for stream in seen.streams:
        found = _judged(stream, seen, influence)
        if found is not None:
            says, severity, remedy = found
            yield Finding(
                says,
                where=stream.name,
                severity=severity,
                evidence={
                    "offset": stream.offset,
                    "share of targets that equal the input": stream.agreement,
                    "at any other offset": stream.runner_up,
                    "change by the target's own position": stream.target,
                    "change by later positions": stream.later,
                    "change by earlier positions": stream.earlier,
                    "threshold": influence,
                    "source": "next-step targets are shifted by one step",
                },
                remedies=(remedy,),
            )
            return


def _judged(stream: StreamInfluence, seen: PositionInfluence, influence: float) -> tuple[str, Severity, Remedy] | None:
    agree = f"{stream.agreement:.0%} of the targets"
    sees_target, is_causal = stream.target > influence, stream.later <= influence and stream.earlier > influence
    if stream.ahead == 0 and stream.is_whole:
        if sees_target and is_causal:
            says = f"{agree} equal `{stream.name}` at the same position instead of the next, so the causal model only "
            return says + "learns to copy its input.", "suspect" if stream.is_tokens else "note", SHIFT
    elif stream.ahead == 2 and stream.is_next_step and stream.is_tokens and not sees_target and is_causal:
        if not seen.several:
            twice = "; the labels are shifted in the batch, and again by the loss" if seen.shifted_before else ""
            says = f"{agree} equal `{stream.name}` two positions later, so the causal model skips a token{twice}."
            return says, "suspect", ONCE
    elif stream.predicted < stream.positions and sees_target and _is_in_window(stream):
        place = f"position {stream.offset} of {stream.positions}"
        return f"{agree} equal `{stream.name}` from {place} on, which the model sees.", "suspect", BEHIND
    return None


def _is_in_window(stream: StreamInfluence) -> bool:
    """Whether a few real numbers are to be predicted which are the last of the series; others may be to be recalled."""
    is_last = stream.offset + stream.predicted == stream.positions
    return is_last and not stream.is_tokens and not stream.is_next_step and stream.runner_up < 0.5
