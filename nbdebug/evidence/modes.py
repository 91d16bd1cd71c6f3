"""What changes between training and eval mode, from run to run, and since a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CheckpointMatch",
    "EvalNoise",
    "ModeGap",
    "NormFacts",
    "Norms",
    "RandomCall",
    "Repeats",
    "StepModes",
    "TensorMatch",
]


@dataclass(frozen=True)
class RandomCall:
    """One call of a random operation: its name, what kind of chance it is, the module that was running.

    `kind` is dropout, uniform, normal or other. `elementwise` says that as many numbers were drawn as some module's
    output holds, as a mask or noise for activations would need; `source` is the user's line that drew them.
    """

    name: str
    kind: str
    where: str
    elementwise: bool
    source: str = ""


@dataclass(frozen=True)
class EvalNoise:
    """How much the prediction of one batch changes from run to run in eval mode, relative to its spread.

    `changed` is with other random numbers, `repeated` with the same ones. `first` is the first module whose output
    changes although its inputs do not. `plain` says that there is one output, a target and an ordinary loss.
    """

    changed: float
    repeated: float
    first: str
    first_module: str
    calls: tuple[RandomCall, ...]
    plain: bool
    task: str


@dataclass(frozen=True)
class ModeGap:
    """The loss on the same batches in both modes: as the model came, after a short training, and settled after that.

    `start` is the loss before the training, `chance` that of guessing where it is known. `first` is the first module
    whose output differs grossly between the modes in the end.
    """

    given_train: float
    given_eval: float
    chance: float | None
    start: float
    steps: int
    train: float
    eval: float
    settled: float
    first: str
    first_module: str


@dataclass(frozen=True)
class StepModes:
    """In which mode the modules are that behave differently in the two, while a training step runs.

    `handed_training` is the mode of the whole model as it was handed over. `put_to_eval` are the modules that were in
    training mode before the user's step and in eval mode within it; `eval_as_handed` says that a step from the state as
    handed over runs in eval mode, None when no step was given. `left_in_eval` are the modules that the step trains in
    training mode when it is called once, and in eval mode when it is called again.
    """

    handed_training: bool
    sensitive: tuple[str, ...]
    has_step: bool
    put_to_eval: tuple[str, ...] = ()
    whole_in_eval: bool = False
    eval_as_handed: bool | None = None
    left_in_eval: tuple[str, ...] = ()
    place: str = "your train_step"


@dataclass(frozen=True)
class NormFacts:
    """One module that keeps running statistics.

    `default` says that they are still 0 and 1; `moves` whether a pass in training mode changes them; `values` is the
    number of values that each statistic is taken over; `off` how far the statistics of the batch are from those kept,
    in standard deviations.
    """

    path: str
    module: str
    momentum: float | None
    tracks: bool
    training: bool
    default: bool
    moves: bool
    values: int
    samples: int
    off: float


@dataclass(frozen=True)
class Norms:
    """Every module that keeps running statistics, and whether a batch of one sample can be trained on.

    `last_batch` is the size of the last batch of an epoch where that can be known.
    """

    layers: tuple[NormFacts, ...]
    handed_training: bool
    batch_size: int
    last_batch: int | None
    single_fails: str


@dataclass(frozen=True)
class Repeats:
    """The same short training twice from the same state with the same seed."""

    steps: int
    loss_difference: float
    weight_difference: float
    where: str
    restless_samples: int
    samples: int


@dataclass(frozen=True)
class TensorMatch:
    """One tensor of the model against its counterpart in the checkpoint.

    `state` is equal, alike (correlated, as after more training), other, shape, or absent. `correlation` is between the
    two tensors, nan where it means nothing.
    """

    name: str
    key: str
    state: str
    correlation: float
    count: int


@dataclass(frozen=True)
class CheckpointMatch:
    """A model against a checkpoint. `prefix` is what the checkpoint's names have in front, or lack."""

    source: str
    tensors: tuple[TensorMatch, ...]
    prefix: str
    lacks_prefix: bool
    unused: tuple[str, ...]

    def of(self, *states: str) -> list[TensorMatch]:
        """Give the tensors in one of these states."""
        return [tensor for tensor in self.tensors if tensor.state in states]
