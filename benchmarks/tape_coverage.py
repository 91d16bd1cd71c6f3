"""In how many set-ups the tape finds the prediction and can exchange it, of all healthy and all faulty ones.

A prediction counts where a replay or an override of its own values gives the same loss (relative 1e-4), and other
values give another loss. The rest is listed with the reason.

    python -m benchmarks.tape_coverage [name …]
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch

from nbdebug.core.control import Control
from nbdebug.errors import NbdebugError
from nbdebug.experiments.tape import TOLERANCE, Tape, TapeUnreadable, override, record
from nbdebug.sandbox import Sandbox, guarded, make_sandbox
from nbdebug.setup import Batch, Setup
from tests.examples import all_healthy
from tests.unseen import all_unseen

_NOT_SETUP = ("class_names", "progress", "checks")


@dataclass(frozen=True)
class Row:
    """What the tape makes of one set-up."""

    name: str
    way: str  # replay, override or none; broken where the program fails or has no gradient
    read: str  # prediction, target and loss function
    reason: str = ""


def others(own: torch.Tensor) -> list[torch.Tensor]:
    """Return other predictions: finite values in another order, which stay in the loss's domain, and noise."""
    finite = torch.isfinite(own)
    values = own[finite]
    mixed = own.clone()
    mixed[finite] = 0.5 * values + 0.5 * values[torch.randperm(len(values))]
    noise = torch.randn(own.shape).to(own.dtype) * finite
    return [mixed, own + noise, own + 1e4 * noise]


def moves(loss_of: Callable[[torch.Tensor], float], own: torch.Tensor, loss: float) -> bool:
    """Whether another prediction gives another loss."""
    for other in others(own):
        try:
            if loss_of(other) != loss:
                return True
        except (RuntimeError, ValueError):  # outside of the loss's domain
            continue
    return False


def exchanged(sandbox: Sandbox, batch: Batch, tape: Tape) -> tuple[str, str]:
    """Return by which intervention the prediction can be exchanged, and why not by replay."""
    own, number = tape.prediction.value, tape.prediction.number
    if not math.isfinite(tape.loss):
        return "broken", f"the loss is {tape.loss}"
    try:
        if tape.replay_error <= TOLERANCE:
            moved = moves(lambda new: float(tape.replay(new)), own, tape.loss)
            return ("replay", "") if moved else ("none", "another prediction gives the same loss")
        reason = f"replay differs by {tape.replay_error:.1e}"
    except TapeUnreadable as error:
        reason = str(error)
    again = override(sandbox, batch, tape, {number: own}).loss
    if abs(again - tape.loss) > TOLERANCE * max(abs(tape.loss), 1e-6):
        return "none", f"{reason}; override differs by {abs(again - tape.loss):.1e}"
    moved = moves(lambda new: override(sandbox, batch, tape, {number: new}).loss, own, tape.loss)
    return ("override", reason) if moved else ("none", f"{reason}; another prediction gives the same loss")


def measured(name: str, setup: Setup) -> Row:
    """Record one set-up and exchange its prediction."""

    def run() -> Row:
        sandbox = make_sandbox(setup, Control())
        sandbox.ready_to_train()
        batch = sandbox.batch()
        tape = record(sandbox, batch)
        target = tape.target
        seen = f"{tape.prediction.shape} by {tape.prediction.made_by} in {tape.prediction.module or 'no module'}"
        seen += f" | {tape.loss_name or 'no target'}({','.join(target.sources) if target else ''})"
        seen += f" | {len(tape.terms)} terms, {len(tape.heads)} heads"
        return Row(name, *_swapped(exchanged(sandbox, batch, tape), seen))

    try:
        return guarded(run, (), Control())
    except NbdebugError as error:
        broken = "no gradient" in str(error) or "no backward" in str(error)
        return Row(name, "broken" if broken else "none", "", str(error).splitlines()[0])
    except Exception as error:
        return Row(name, "broken" if fails(setup) else "none", "", f"{type(error).__name__}: {error}".splitlines()[0])


def fails(setup: Setup) -> bool:
    """Whether the program raises by itself, without a tape."""
    try:
        sandbox = make_sandbox(setup, Control())
        sandbox.ready_to_train()
        (sandbox.user_step if sandbox.train_step is not None else sandbox.run)(sandbox.batch())
    except Exception:
        return True
    return False


def _swapped(found: tuple[str, str], seen: str) -> tuple[str, str, str]:
    return found[0], seen, found[1]


def main(wanted: list[str]) -> None:
    """Print the share of each kind, and every set-up that is not exchanged by a replay."""
    for title, cases in (("healthy", all_healthy()), ("unseen", all_unseen())):
        rows = []
        for case in cases:
            if wanted and case.name not in wanted:
                continue
            torch.manual_seed(0)
            made = {key: value for key, value in case.make().items() if key not in _NOT_SETUP}
            rows.append(measured(case.name, Setup(**made)))
        count = Counter(row.way for row in rows)
        found, whole = count["replay"] + count["override"], len(rows) - count["broken"]
        print(f"{title}: {found} of {whole} that run ({found / max(whole, 1):.1%}); {dict(count)}")
        for row in rows:
            if row.way != "replay" or wanted:
                print(f"  {row.way:9} {row.name:36} {row.reason} [{row.read}]")


if __name__ == "__main__":
    main(sys.argv[1:])
