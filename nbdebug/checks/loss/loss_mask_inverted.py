"""A loss that counts the padding of sequences and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.compared_positions import compared
from nbdebug.experiments.tape import Tape, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import leaves, name_of
from nbdebug.setup.user_code import required_user_code

__all__ = ["CountedTargets", "counted_targets", "loss_mask_inverted"]

BATCHES = 4


@dataclass(frozen=True)
class CountedTargets:
    """The targets that have a gradient: how many, and whether all of them are one value that fills up the sequences.

    `others` is the number of other values that the entry `name` of the batch holds, none of which has a gradient.
    """

    place: str
    counted: int
    is_one_value: bool = False
    name: str = ""
    value: float = 0.0
    others: int = 0
    where: str = ""  # the end or the beginning of the sequences


@probe
def counted_targets(sandbox: Sandbox, trial: TrialRun | None) -> CountedTargets:
    """Record the loss of some batches and collect the targets of positions that get a gradient."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    place = "train_step" if sandbox.train_step is not None else "compute_loss" if sandbox.compute_loss else "loss_fn"
    found: list[tuple[Batch, Tape, torch.Tensor]] = []
    for batch in sandbox.batches(BATCHES):
        with required_user_code("the run fails ({kind})"):
            tape = record(sandbox, batch)
        counted = _counted(tape, batch.size)
        found.append((batch, tape, counted))
        values = torch.cat([targets.double() for _, _, targets in found]).unique()
        if len(values) != 1:
            return CountedTargets(place, sum(t.numel() for _, _, t in found))
    total, value = sum(t.numel() for _, _, t in found), float(found[0][2].flatten()[0])
    for name, rows in _entries(found[0][0], found[0][1]):
        ends = _filled(rows, value)
        if ends:
            others = len(rows.unique()) - 1
            return CountedTargets(place, total, True, name, value, others, ends)
    return CountedTargets(place, total)


def _counted(tape: Tape, size: int) -> torch.Tensor:
    """Return the targets that have a say in the loss."""
    if tape.target is None:
        raise NotApplicable("the loss compares the prediction with no target")
    for seen in compared(tape, size):
        if bool(seen.counted.any()) and not bool(seen.counted.all()):
            return seen.target[seen.counted].flatten()
    return tape.target.value.flatten()


def _entries(batch: Batch, tape: Tape) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the sequences that the target is made of."""
    sources = tape.target.sources if tape.target is not None else ()
    for path, leaf in leaves(batch.raw):
        if name_of(path) in sources and isinstance(leaf, torch.Tensor) and leaf.dim() == 2 and leaf.shape[1] > 1:
            yield name_of(path), leaf.double()


def _filled(rows: torch.Tensor, value: float) -> str:
    """Say at which side of all rows this value stands, and nowhere else; empty where it is not so."""
    is_filler = (rows == value).int()
    if not bool(is_filler.any()) or bool(is_filler.all(1).any()):
        return ""
    steps = is_filler.diff(dim=1)
    return "end" if bool((steps >= 0).all()) else "beginning" if bool((steps <= 0).all()) else ""


@check(explains=("worse-than-baseline", "padding-dominates", "cannot-overfit-batch", "loss-metric-disagree"))
def loss_mask_inverted(
    targets: CountedTargets,
    *,
    counted: int = 8,  # positions, below which one value for all may be chance; our choice
    others: int = 3,  # values that do not count; with fewer, the loss may be of one class; our choice
) -> Iterator[Finding]:
    """The loss counts the padding of the sequences instead of their content.

    nbdebug records the loss of a few batches and reads the targets of all predictions that get a gradient. It reports
    a loss all of whose targets are one value, if that value fills up the sequences at their end (or at their
    beginning), and the other values of these sequences never count.

    Why it matters: the model learns to predict padding. The loss falls close to zero within a few steps, and no
    prediction for a real token is ever trained.

    What to try: invert the mask. Libraries disagree on whether `True` means "keep" or "leave out".
    """
    if not targets.is_one_value or targets.counted < counted or targets.others < others:
        return
    yield Finding(
        f"The loss counts only padding: all {targets.counted} targets with a gradient are {targets.value:g}, which "
        f"fills the {targets.where} of `{targets.name}`; its {targets.others} other values never count.",
        where=targets.place,
        severity="bug",
        evidence={
            "targets with a gradient": targets.counted,
            "value of all of them": targets.value,
            "values without a gradient": targets.others,
            "side of the sequences": targets.where,
            "threshold": counted,
            "source": "a mask of the loss keeps what is real",
        },
        remedies=(Remedy("Invert the mask of the loss.", "loss = (losses * ~is_padding).sum() / (~is_padding).sum()"),),
    )
