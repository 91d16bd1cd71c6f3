"""One recorded run of the user's own loss or training step: its terms, its prediction, and its target."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nbdebug.core.registry import probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape import TOLERANCE, Tape, TapeUnreadable, agree_on_replay, moves_with_seed, override, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import required_run

__all__ = ["LossTerm", "TapedPass", "taped_pass"]


@dataclass(frozen=True)
class LossTerm:
    """One summand of the loss: its value, its share of all magnitudes, and the op that compares, if there is one."""

    value: float
    share: float
    compared_by: str
    target_keys: tuple[str, ...]
    is_main: bool


@dataclass(frozen=True)
class TapedPass:
    """What one recorded run of the loss (or of the training step) computes and compares.

    `prediction_op` and `prediction_module` say what made the prediction; `target_keys` which entries of the batch the
    target is made of, and `loss_name` the torch function that takes both, empty where there is none. `exchanged_by`
    is `replay` or `override`, whichever reproduces the loss, or empty with the reason in `reason`. `is_random` says
    that the prediction is another one with another seed.
    """

    program: str  # train_step, compute_loss, loss_fn or model
    loss: float
    terms: tuple[LossTerm, ...]
    prediction_shape: tuple[int, ...]
    prediction_op: str
    prediction_module: str
    target_shape: tuple[int, ...] | None
    target_keys: tuple[str, ...]
    loss_name: str
    heads: tuple[str, ...]  # the modules of the last ops that compute with parameters
    ops: int
    exchanged_by: str
    reason: str
    is_random: bool


@probe
def taped_pass(sandbox: Sandbox, trial: TrialRun | None) -> TapedPass:
    """Record one run of your loss or training step, and read its terms, prediction and target."""
    if trial is not None:  # there is none of a training step whose model cannot be called without it
        require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    tape = _recorded(sandbox, batch)
    exchanged_by, reason = _exchangeable(sandbox, batch, tape)
    target = tape.target
    return TapedPass(
        program=_program(sandbox, tape),
        loss=tape.loss,
        terms=_terms(tape),
        prediction_shape=tape.prediction.shape,
        prediction_op=tape.prediction.made_by,
        prediction_module=tape.prediction.module,
        target_shape=target.shape if target is not None else None,
        target_keys=target.sources if target is not None else (),
        loss_name=tape.loss_name,
        heads=tuple(head.module or head.made_by for head in tape.heads),
        ops=len(tape.recording.ops),
        exchanged_by=exchanged_by,
        reason=reason,
        is_random=_is_random(sandbox, batch, tape),
    )


def _recorded(sandbox: Sandbox, batch: Batch) -> Tape:
    with required_run():
        return record(sandbox, batch)


def _program(sandbox: Sandbox, tape: Tape) -> str:
    if tape.is_step:
        return "train_step"
    if sandbox.compute_loss is not None:
        return "compute_loss"
    return "loss_fn" if sandbox.loss_fn is not None or sandbox.setup.assumed_loss is not None else "model"


def _terms(tape: Tape) -> tuple[LossTerm, ...]:
    total = sum(abs(term.value) for term in tape.terms)
    values = tape.recording.values
    return tuple(
        LossTerm(
            value=term.value,
            share=abs(term.value) / total if total > 0 else math.nan,
            compared_by=term.comparison.name if term.comparison is not None else "",
            target_keys=tuple(sorted(values[term.comparison.target].sources)) if term.comparison is not None else (),
            is_main=term is tape.main,
        )
        for term in tape.terms
    )


def _exchangeable(sandbox: Sandbox, batch: Batch, tape: Tape) -> tuple[str, str]:
    """Say which intervention reproduces the loss with the prediction's own values, and why the first one does not."""
    try:
        if tape.replay_error <= TOLERANCE:
            return "replay", ""
        reason = f"a replay of the run's own values differs by {tape.replay_error:.1e} of the loss"
    except TapeUnreadable as error:
        if agree_on_replay(sandbox, batch, tape):
            return "replay", ""
        reason = str(error)
    try:
        again = override(sandbox, batch, tape, {tape.prediction.number: tape.prediction.value})
    except TapeUnreadable as error:
        return "", f"{reason}; {error}"
    same = abs(again.loss - tape.loss) <= TOLERANCE * max(abs(tape.loss), 1e-6)
    return ("override", reason) if same else ("", f"{reason}; a second run has another loss")


def _is_random(sandbox: Sandbox, batch: Batch, tape: Tape) -> bool:
    try:
        return moves_with_seed(sandbox, batch, tape)
    except (TapeUnreadable, RuntimeError):
        return True
