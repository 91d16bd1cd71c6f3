"""The tape of one run, as experiments use it: what it read, and the two ways to exchange a value."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from nbdebug.experiments.tape.ops import Recording, Value
from nbdebug.experiments.tape.program import TapeUnreadable, run_recorded
from nbdebug.experiments.tape.read import Term, main_term, terms_of
from nbdebug.experiments.tape.replay import replayed, tail_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["TOLERANCE", "Tape", "Tensor", "check_shape", "record", "tape_of"]

TOLERANCE = 1e-4  # a replay of the run's own values may differ by rounding, relative to the loss


@dataclass(frozen=True)
class Tensor:
    """A tensor of the run: its number on the tape, its values, and the op, module and batch entries it is made of."""

    number: int
    value: torch.Tensor = field(repr=False)
    op: int
    made_by: str
    module: str
    sources: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(self.value.shape)


@dataclass
class Tape:
    """What one recorded run of the loss or of the training step shows."""

    recording: Recording
    terms: tuple[Term, ...]
    main: Term
    is_step: bool
    seed: int = 0
    reads_matter: bool = True  # what Python code reads of values refuses a replay, until an override agrees with it
    _errors: list[float] = field(default_factory=list, repr=False)

    @property
    def loss(self) -> float:
        """The loss that the main term belongs to."""
        return float(self._kept(self.main.root).detach())

    @property
    def heads(self) -> tuple[Tensor, ...]:
        """The outputs of the last ops that compute with parameters, on the way to the main term."""
        return tuple(self.tensor(number) for number in self.main.heads)

    @property
    def prediction(self) -> Tensor:
        """What the main term compares with its target; the last head where it has none."""
        number = self.main.prediction
        assert number is not None
        return self.tensor(number)

    @property
    def target(self) -> Tensor | None:
        """What the prediction is compared with, as the loss function receives it."""
        return self.tensor(self.main.comparison.target) if self.main.comparison is not None else None

    @property
    def loss_name(self) -> str:
        """The torch function that takes prediction and target: `cross_entropy`, `sub`; empty where there is none."""
        return self.main.comparison.name if self.main.comparison is not None else ""

    @property
    def gradients(self) -> dict[str, torch.Tensor]:
        """The gradient of each parameter, where a step or `record(gradients=True)` went backward."""
        return self.recording.gradients

    def tensor(self, number: int) -> Tensor:
        """Return a value of the run by its number."""
        value, op = self.recording.values[number], self.recording.producer(number)
        made_by, module = (op.name, op.module) if op is not None else ("", "")
        return Tensor(
            number, self._kept(number).detach(), value.producer, made_by, module, tuple(sorted(value.sources))
        )

    def replay(
        self, prediction: torch.Tensor | None = None, exchange: dict[int, torch.Tensor] | None = None
    ) -> torch.Tensor:
        """Return the loss with another prediction (or other values by number), by the recorded ops behind it.

        It is differentiable. A tail whose identity replay fails is refused with the reason.
        """
        if self.replay_error > TOLERANCE:
            raise TapeUnreadable(f"the replay of the run's own values differs by {self.replay_error:.1e} of the loss")
        return self._replayed({self.prediction.number: prediction} if prediction is not None else exchange or {})

    @property
    def replay_error(self) -> float:
        """How far the loss of a replay with the prediction's own values is from the loss, relative to it."""
        if not self._errors:
            with torch.no_grad():
                again = float(self._replayed({self.prediction.number: self.prediction.value}))
            self._errors.append(_relative(again, self.loss))
        return self._errors[0]

    def gradient(self, number: int | None = None) -> torch.Tensor:
        """Return the gradient of the loss with respect to the prediction, or another value by number, by a replay."""
        number = self.prediction.number if number is None else number
        leaf = self._kept(number).detach().clone().requires_grad_()
        with torch.enable_grad():
            (found,) = torch.autograd.grad(self.replay(exchange={number: leaf}), leaf, allow_unused=True)
        return torch.zeros_like(leaf) if found is None else found

    def release(self) -> None:
        """Let go of all tensors but the operands of the ops behind the heads, and of the graph."""
        kept = self._needed()
        for value in self.recording.values:
            value.tensor = value.tensor.detach() if value.tensor is not None and value.number in kept else None

    def _needed(self) -> set[int]:
        wanted = {self.prediction.number, *self.main.heads, *(term.number for term in self.terms), self.main.root}
        for term in self.terms:  # a loop over time steps has one for each of them
            if term.comparison is not None:
                wanted.update((term.comparison.prediction, term.comparison.target))
        for op in tail_of(self.recording, {*self.main.heads, self.prediction.number}, self.main.root):
            wanted.update(op.inputs)
        return wanted

    def _kept(self, number: int) -> torch.Tensor:
        tensor = self.recording.values[number].tensor
        if tensor is None:
            raise TapeUnreadable("the tensor was modified in place after it was used, or is no longer kept")
        return tensor

    def _replayed(self, exchange: dict[int, torch.Tensor]) -> torch.Tensor:
        for number, new in exchange.items():
            check_shape(self.recording.values[number], new)
        return replayed(self.recording, exchange, self.main.root, reads_matter=self.reads_matter)


def record(
    sandbox: Sandbox,
    batch: Batch,
    *,
    step: bool | None = None,
    seed: int = 0,
    gradients: bool = False,
    hold_modes: bool = False,
) -> Tape:
    """Run the training step, or the loss where there is none, once on the copy, and read what it does.

    The optimizer is held, and the copy, random generators and everything global are as before. `step` chooses between
    the two where the user passed both; `hold_modes` keeps the model in training or eval mode whatever the program
    calls. What cannot be read is refused with the reason.
    """
    is_step = sandbox.train_step is not None if step is None else step
    recording = run_recorded(sandbox, batch, step=is_step, seed=seed, backward=gradients, hold_modes=hold_modes)
    tape = tape_of(recording, is_step, seed)
    tape.release()
    return tape


def tape_of(recording: Recording, is_step: bool, seed: int = 0) -> Tape:
    """Read the terms of a recorded run, with all tensors that the recording keeps."""
    roots = _roots(recording, is_step)
    terms = [term for root in roots for term in terms_of(recording, root)]
    read = [term for term in terms if term.prediction is not None]
    if not read:
        raise TapeUnreadable("no operation behind the loss computes with both parameters and data")
    tape = Tape(recording, tuple(terms), main_term(recording, read), is_step, seed)
    if tape.prediction.op < 0 and tape.prediction.value.numel() == 1:
        raise TapeUnreadable("the loss comes out of code that the tape cannot see into, such as TorchScript or vmap")
    return tape


def _roots(recording: Recording, is_step: bool) -> list[int]:
    """Return the losses of a run, without those that have no gradient."""
    roots = list(dict.fromkeys(recording.roots or recording.differentiated))
    if not roots:
        raise TapeUnreadable("the training step calls no backward()" if is_step else "the loss is not a tensor")
    if any(recording.values[root].numel != 1 for root in roots):
        raise TapeUnreadable("the loss is not a scalar")
    graded = [root for root in roots if recording.values[root].requires_grad]
    if not graded:
        raise TapeUnreadable("the loss has no gradient")
    return graded


def check_shape(value: Value, new: torch.Tensor) -> None:
    """Refuse other values of another shape."""
    if tuple(new.shape) != value.shape:
        raise ValueError(f"the exchanged value has shape {tuple(new.shape)}, but the run's has {value.shape}")


def _relative(one: float, other: float) -> float:
    return abs(one - other) / max(abs(other), 1e-6)
