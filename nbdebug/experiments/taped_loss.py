"""The user's own loss as a function of its prediction, for any shape of program, by the tape of one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nbdebug.errors import Cancelled, NbdebugError, OutOfTime
from nbdebug.experiments.tape import TOLERANCE, Tape, TapeUnreadable, agree_on_replay, record
from nbdebug.experiments.tape.outputs import output_numbers, terms_at_heads
from nbdebug.experiments.tape.program import run_recorded, run_until
from nbdebug.experiments.tape.replay import replayed
from nbdebug.experiments.tape.taint import Taint
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["TapedLoss", "taped_loss"]


_SAME_VALUES = (
    "view", "reshape", "view_as", "reshape_as", "squeeze", "unsqueeze", "flatten", "permute", "transpose", "movedim",
    "contiguous", "to", "float", "double", "type", "clone", "T", "mT", "t",
)  # fmt: skip


@dataclass
class TapedLoss:
    """A recorded loss, asked by replays of the ops behind its prediction.

    `numbers` are the values that are exchanged: the prediction, or several outputs that take separate ways to the loss.
    `parts` are the scalars that are evaluated, with their factors: the loss, or those of its terms that read the
    prediction.
    """

    sandbox: Sandbox
    batch: Batch
    tape: Tape
    numbers: tuple[int, ...]
    parts: tuple[tuple[int, float], ...]

    @property
    def output(self) -> Any:
        """The values of the run: a tensor, or a list of them where there are several."""
        found = [self.tape.tensor(number).value for number in self.numbers]
        return found[0] if len(found) == 1 else found

    @property
    def target(self) -> tuple[str, torch.Tensor] | None:
        """The target as the loss receives it, and the entry of the batch it is made of; None unless it is data."""
        return _target(self.tape)

    @property
    def is_made_in_loss(self) -> bool:
        """Whether no module of the model makes the prediction, and other values than those that one returns."""
        made = [self.tape.tensor(number) for number in self.numbers]
        return len(made) == 1 and made[0].op >= 0 and not made[0].module and made[0].made_by not in _SAME_VALUES

    @property
    def has_margin(self) -> bool:
        """Whether the target itself changes the prediction behind the model's outputs, as margins do."""
        values, target = self.tape.recording.values, self.tape.target
        wanted = set(target.sources) if target is not None else set()
        seen, stack = set(self.tape.main.heads), [*self.numbers]
        while stack and wanted:
            number = stack.pop()
            op = self.tape.recording.producer(number)
            if op is None or number in seen:
                continue
            seen.add(number)
            operands = [values[n] for n in op.inputs if n not in seen]
            if any(wanted & v.sources and not v.taint & Taint.PARAMETER for v in operands):
                return True
            stack += [v.number for v in operands if v.taint & Taint.PARAMETER]
        return False

    def evaluate(self, answer: Any, on: Batch) -> torch.Tensor:
        """Return the loss with other values; on another batch, by running the program again."""
        self.sandbox.control.poll()
        given = answer if isinstance(answer, list) else [answer]
        exchange = dict(zip(self.numbers, given, strict=True))
        if on is self.batch:
            recording, matters = self.tape.recording, self.tape.reads_matter
            found = [f * replayed(recording, exchange, part, reads_matter=matters) for part, f in self.parts]
            return torch.stack([one.sum() for one in found]).sum()
        recording = run_recorded(
            self.sandbox, on, step=self.tape.is_step, seed=self.tape.seed, backward=True, overrides=exchange
        )
        names = [recording.ops[self.tape.recording.values[n].producer].name for n in self.numbers]
        roots = recording.roots or recording.differentiated
        before = self.tape.recording.roots or self.tape.recording.differentiated
        place = before.index(self.tape.main.root)
        if names != self._made_by() or place >= len(roots):
            raise TapeUnreadable("another batch takes other operations")
        loss = recording.values[roots[place]].tensor
        assert loss is not None
        return loss

    def answer(self, on: Batch) -> Any:
        """Run the program up to the prediction, and return it with its graph."""
        found = run_until(self.sandbox, on, self.numbers, step=self.tape.is_step, seed=self.tape.seed)
        if [name for name, _ in found] != self._made_by():
            raise TapeUnreadable("another batch takes other operations")
        tensors = [tensor for _, tensor in found]
        return tensors[0] if len(tensors) == 1 else tensors

    def targets(self, batches: list[Batch]) -> list[torch.Tensor]:
        """Return the targets of several batches as the loss receives them."""
        tapes = [self.tape, *(record(self.sandbox, batch, step=self.tape.is_step) for batch in batches[1:])]
        found = [_target(tape) for tape in tapes]
        return [target for _, target in (one for one in found if one is not None)]

    def _made_by(self) -> list[str]:
        ops, values = self.tape.recording.ops, self.tape.recording.values
        return [ops[values[n].producer].name if values[n].producer >= 0 else "" for n in self.numbers]


def taped_loss(
    sandbox: Sandbox, batch: Batch, *, alone: bool = False, forms: tuple[bool, ...] | None = None
) -> TapedLoss | None:
    """Record the program once and make its loss a function of its prediction; None where that cannot be trusted.

    With `alone`, the terms that do not read the prediction are left out. `forms` says whether to run the step or the
    loss.
    """
    for step in forms or _forms(sandbox):
        try:
            tape = record(sandbox, batch, step=step)
            if _is_replayed(sandbox, batch, tape):
                return _of(sandbox, batch, tape, alone)
        except (Cancelled, OutOfTime):
            raise
        except (NbdebugError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError):
            continue  # what fails is judged by what the model returns
    return None


def _forms(sandbox: Sandbox) -> tuple[bool, ...]:
    if sandbox.train_step is None:
        return (False,)
    return (True, False) if sandbox.is_loss_known else (True,)


def _is_replayed(sandbox: Sandbox, batch: Batch, tape: Tape) -> bool:
    """Whether a replay of the run's own values gives its loss."""
    try:
        return tape.replay_error <= TOLERANCE
    except TapeUnreadable:
        return agree_on_replay(sandbox, batch, tape)


def _of(sandbox: Sandbox, batch: Batch, tape: Tape, alone: bool) -> TapedLoss | None:
    numbers = output_numbers(tape.recording, tape.terms, tape.main)
    if not numbers:
        return None
    group = terms_at_heads(tape.terms, tape.main) if alone else []
    parts = tuple((term.number, term.factor) for term in group) or ((tape.main.root, 1.0),)
    found = TapedLoss(sandbox, batch, tape, numbers, parts)
    with torch.no_grad():
        again = float(found.evaluate(found.output, batch))
    expected = sum(term.value for term in group) if alone else tape.loss
    size = max(abs(expected), *(abs(term.value) for term in group), 1e-6)
    return found if abs(again - expected) <= TOLERANCE * size else None


def _target(tape: Tape) -> tuple[str, torch.Tensor] | None:
    number = tape.main.comparison.target if tape.main.comparison is not None else None
    if number is None or not _is_data(tape, number) or tape.target is None:
        return None
    return ", ".join(tape.target.sources), _looked_up(tape, tape.target.value)


def _looked_up(tape: Tape, target: torch.Tensor) -> torch.Tensor:
    """Return a target without the dimension along which it is looked up, as in `scores.gather(1, y[:, None])`."""
    comparison = tape.main.comparison
    assert comparison is not None
    op, shape = tape.recording.ops[comparison.op], tape.recording.values[comparison.prediction].shape
    if op.name not in ("gather", "take_along_dim") or target.dim() != len(shape):
        return target
    given = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 and isinstance(op.args[1], int) else -1)
    return target.squeeze(int(given)) if target.shape[int(given)] == 1 else target


def _is_data(tape: Tape, number: int | None) -> bool:
    """Whether a target is data: neither drawn, nor a constant, nor computed by a network."""
    if number is None:
        return False
    taint = tape.recording.values[number].taint
    return bool(taint & Taint.BATCH) and not taint & (Taint.PARAMETER | Taint.FROZEN | Taint.RANDOM | Taint.UNSEEN)
