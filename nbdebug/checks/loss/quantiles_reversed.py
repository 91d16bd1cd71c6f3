"""A quantile loss whose outputs learn the opposite quantiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape import Taint, Tape
from nbdebug.experiments.tape.ops import Use, Value
from nbdebug.experiments.taped_loss import TapedLoss, taped_loss
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_user_code

__all__ = ["QuantileSlopes", "quantile_slopes", "quantiles_reversed"]

LINEAR = 0.01  # how far twice the error may be from twice the cost


@dataclass(frozen=True)
class QuantileSlopes:
    """The quantile that each output learns, by what errors to both sides cost, and the levels that the loss is given.

    `given` is the sequence of constants of the loss that is closest to these quantiles or to their opposites.
    """

    learned: tuple[float, ...]
    given: tuple[float, ...]
    place: str


@probe
def quantile_slopes(sandbox: Sandbox, trial: TrialRun | None) -> QuantileSlopes:
    """Move each output to both sides of its target, and read what it costs."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    with required_user_code("the run fails ({kind})"):
        taped = taped_loss(sandbox, batch, alone=False)
        if taped is None or len(taped.tape.main.heads) != 1 or taped.tape.target is None:
            raise NotApplicable("the loss compares no single output with targets")
        head, wanted = taped.tape.main.heads[0], taped.tape.target.value
        shape = taped.tape.recording.values[head].shape
        if len(shape) != 2 or shape[1] < 2 or wanted.numel() != shape[0] or not wanted.is_floating_point():
            raise NotApplicable("the loss does not compare several outputs with one target")
        exact = wanted.reshape(-1, 1).expand(shape).clone()
        learned = [_level(taped, head, exact, column) for column in range(shape[1])]
    place = "train_step" if taped.tape.is_step else "compute_loss" if sandbox.compute_loss is not None else "loss_fn"
    opposite = torch.tensor(learned).neg() + 1
    lists = [c for c in _constants(taped.tape) if len(c) == len(learned)]
    given = min(lists, key=lambda c: float((torch.tensor(c) - opposite).abs().max()), default=())
    return QuantileSlopes(tuple(learned), tuple(given), place)


def _level(taped: TapedLoss, head: int, exact: torch.Tensor, column: int) -> float:
    """Return the quantile that one output learns: what an error from below costs, of both sides."""
    size = float(exact.std().clamp_min(1e-3))

    def cost(step: float) -> float:
        moved = exact.clone()
        moved[:, column] += step * size
        with torch.no_grad():
            return float(taped.tape.replay(exchange={head: moved}))

    start = cost(0.0)
    above, below, far_above, far_below = (cost(step) - start for step in (1.0, -1.0, 2.0, -2.0))
    is_linear = abs(far_above - 2 * above) <= LINEAR * above and abs(far_below - 2 * below) <= LINEAR * below
    if not (above > 0 and below > 0 and is_linear):
        raise NotApplicable("the cost of an error is not proportional to it")
    return below / (above + below)


def _constants(tape: Tape) -> list[tuple[float, ...]]:
    """Return the numbers between 0 and 1 that the loss is written with: in a tensor, or one after the other."""
    found, written = [], list[float]()
    for op in tape.recording.ops:
        for part in op.args:
            value = tape.recording.values[part.number] if isinstance(part, Use) else None
            if isinstance(part, float) and 0 < part < 1 and part not in written[-1:]:
                written.append(part)
            if value is not None and value.tensor is not None and _is_constant(tape, value):
                numbers = value.tensor.detach().flatten()
                if numbers.is_floating_point() and bool(((numbers > 0) & (numbers < 1)).all()):
                    found.append(tuple(float(n) for n in numbers))
    return [*found, tuple(written)]


def _is_constant(tape: Tape, value: Value) -> bool:
    """Whether a tensor is written down: in a buffer, or as numbers inside of the loss."""
    made = tape.recording.producer(value.number)
    return value.taint == Taint.NONE and (made is None or not made.inputs)


@check(explains=("loss-sign-flipped",))
def quantiles_reversed(
    slopes: QuantileSlopes,
    *,
    near: float = 0.02,  # between the opposite of what an output learns and the level that is written down
) -> Iterator[Finding]:
    """The error in a quantile loss has the wrong sign, so that each output learns the opposite quantile.

    nbdebug moves each output to both sides of its target and reads from the costs which quantile it learns. It compares
    these with the levels in the loss: in a tensor, or as numbers one after the other.

    Why it matters: the output for the 90 % quantile learns the 10 % quantile. With levels on both sides of the median,
    the intervals still look plausible, with the upper bound below the lower one.

    What to try: compute the error as target minus prediction, `torch.maximum(q * error, (q - 1) * error)`.
    """
    learned, given = slopes.learned, slopes.given
    is_falling = all(one > other + near for one, other in pairwise(learned))
    if not given or not is_falling or max(abs(1 - a - b) for a, b in zip(learned, given, strict=True)) > near:
        return
    yield Finding(
        f"The outputs learn the quantiles {_listed(learned)}, but the loss is written for {_listed(given)}: the sign "
        "of the error is wrong.",
        where=slopes.place,
        severity="bug",
        evidence={
            "quantiles that are learned": list(learned),
            "levels in the loss": list(given),
            "threshold": near,
            "source": "Koenker and Bassett, 1978: the check function of target minus prediction",
        },
        remedies=(
            Remedy(
                "Subtract the prediction from the target.",
                "error = y[:, None] - prediction\nloss = torch.maximum(q * error, (q - 1) * error).mean()",
            ),
        ),
    )


def _listed(levels: tuple[float, ...]) -> str:
    return ", ".join(f"{level:.2g}" for level in levels)
