"""Targets of a CTC loss that hold its blank symbol, or are longer than their inputs allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape.ops import Recording, Use
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_run

__all__ = ["CtcTargets", "blank_in_targets", "ctc_targets"]


@dataclass(frozen=True)
class CtcTargets:
    """How many target sequences of some batches hold the blank, and how many are too long for their inputs."""

    blank: int
    sequences: int
    with_blank: int
    too_long: int
    classes: int


BATCHES = 4
_NAMES = ("log_probs", "targets", "input_lengths", "target_lengths", "blank")


@probe(ops=("ctc_loss",))
def ctc_targets(sandbox: Sandbox, trial: TrialRun | None) -> CtcTargets:
    """Read the targets and lengths that the CTC loss is called with."""
    if trial is None and sandbox.train_step is None:
        raise NotApplicable("the loss does not run")
    sandbox.ready_to_train()
    found: list[tuple[int, int, list[torch.Tensor], list[int]]] = []
    for batch in sandbox.batches(BATCHES):
        with required_run():
            recording = run_recorded(sandbox, batch, step=sandbox.train_step is not None)
        found += [read for op in recording.ops if op.name == "ctc_loss" and (read := _read(recording, op)) is not None]
        if not found:
            break
    if not found:
        raise NotApplicable("the loss is no CTC loss")
    texts = [
        (text, length, blank) for blank, _, rows, lengths in found for text, length in zip(rows, lengths, strict=False)
    ]
    return CtcTargets(
        blank=found[0][0],
        sequences=len(texts),
        with_blank=sum(bool((text == blank).any()) for text, _, blank in texts),
        too_long=sum(_frames(text) > length for text, length, _ in texts),
        classes=found[0][1],
    )


def _read(recording: Recording, op: Any) -> tuple[int, int, list[torch.Tensor], list[int]] | None:
    """Return the blank, the number of classes, each target without its padding, and the lengths of the inputs."""
    given = dict(zip(_NAMES, op.args, strict=False)) | op.kwargs
    scores, targets, frames, lengths = (_values(recording, given.get(name)) for name in _NAMES[:4])
    if scores is None or targets is None or frames is None or lengths is None:
        return None
    sizes = [int(n) for n in lengths.flatten().tolist()]
    if targets.dim() == 1:
        rows = list(targets.split(sizes)) if sum(sizes) == len(targets) else []
    else:
        rows = [row[:size] for row, size in zip(targets, sizes, strict=False)]
    steps = [int(n) for n in frames.flatten().tolist()]
    return int(given.get("blank", 0)), int(scores.shape[-1]), rows, steps if len(steps) > 1 else steps * len(rows)


def _values(recording: Recording, part: Any) -> torch.Tensor | None:
    if isinstance(part, Use):
        return recording.values[part.number].tensor
    return torch.as_tensor(part) if isinstance(part, (torch.Tensor, list, tuple, int)) else None


def _frames(text: torch.Tensor) -> int:
    """Return how many frames a target needs: one for each symbol, and a blank between two equal ones."""
    return len(text) + int((text[1:] == text[:-1]).sum())


@check(explains=("cannot-overfit-batch", "worse-than-baseline", "non-finite-forward", "invalid-labels"))
def blank_in_targets(ctc: CtcTargets) -> Iterator[Finding]:
    """The targets of a CTC loss hold its blank, or are longer than their inputs.

    nbdebug records some runs of your loss and reads what `ctc_loss` gets: the number of the blank, every target up to
    its length, and the lengths of the inputs.

    Why it matters: CTC removes blanks from what it reads. A symbol with the number of the blank can never be told from
    silence, so that it is missing in every prediction, and the loss raises no error. A target that needs more frames
    than its input has gives an infinite loss.

    What to try: number the symbols from 1 and keep 0 for the blank, or pass `blank=` with a number that no symbol has.
    Give the loss the lengths of the inputs behind the network's strides.
    """
    evidence = {"sequences": ctc.sequences, "blank": ctc.blank, "classes": ctc.classes, "threshold": 0,
                "source": "torch.nn.CTCLoss: targets cannot be blank"}  # fmt: skip
    if ctc.with_blank:
        yield Finding(
            f"{ctc.with_blank} of {ctc.sequences} targets hold the symbol {ctc.blank}, which is the blank of the CTC "
            "loss: it can never be predicted.",
            where="loss_fn",
            evidence={**evidence, "targets with the blank": ctc.with_blank},
            remedies=(
                Remedy(
                    "Keep the number of the blank free: add one output, and number the symbols from 1.",
                    "loss_fn = nn.CTCLoss(blank=0)\ntargets = targets + 1  # and one more output",
                ),
            ),
        )
    if ctc.too_long:
        yield Finding(
            f"{ctc.too_long} of {ctc.sequences} targets need more frames than their inputs have, so their loss is "
            "infinite.",
            where="loss_fn",
            severity="bug" if 2 * ctc.too_long > ctc.sequences else "suspect",
            evidence={**evidence, "too long": ctc.too_long},
            remedies=(
                Remedy(
                    "Lower the strides of the network, or leave these samples out.", "nn.CTCLoss(zero_infinity=True)"
                ),
            ),
        )
