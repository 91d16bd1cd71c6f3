"""What running the model once or twice shows."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.evidence.tensors import TensorFacts

__all__ = ["BatchMixing", "BatchOrder", "FirstPass", "LayerFacts", "ParameterFacts", "Suggestion", "Task", "TrialRun"]


@dataclass(frozen=True)
class Suggestion:
    """What would make a failing call run: in words, and as code where it can be written down as such."""

    says: str
    code: str = ""

    @classmethod
    def of_code(cls, code: str) -> Suggestion:
        """Return a suggestion that needs no other words than its code."""
        return cls(code, code)


@dataclass(frozen=True)
class TrialRun:
    """Whether one forward, loss and backward go through, and if not: where, with which shapes, and what would fit.

    Only the first batch in training mode decides whether `ok` is true; `later` is what failed in another batch or in
    eval mode.
    """

    failed_at: str  # "" when all went well, otherwise "forward", "loss", "backward" or "code" (outside of them)
    error: str = ""
    where: str = ""
    module: str = ""
    input_shapes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    fits: tuple[Suggestion, ...] = ()
    detail: str = ""
    source: str = ""
    batch: str = ""
    index: int = 0
    mode: str = "training"
    misread: bool = False  # the model was called in another way than it wants, which may be our reading of the batch
    later: TrialRun | None = None
    kind: str = ""  # which of torch's kinds of errors this is: shape, dtype, device, label …
    advice: tuple[tuple[str, str], ...] = ()  # what to do about that kind, with the code to write

    @property
    def ok(self) -> bool:
        """Whether everything ran."""
        return not self.failed_at

    def has_met(self, error: Exception) -> bool:
        """Whether this is what failed in another batch or in eval mode, so that an experiment failed by it as well."""
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        return self.later is not None and bool(self.later.error) and said.startswith(self.later.error.splitlines()[0])


@dataclass(frozen=True)
class Task:
    """What kind of answer is asked for, read off outputs, targets and loss, with the reason.

    `kind` is classification, binary, multilabel, regression, reconstruction or unknown; `scale` says what the
    outputs are where it can be seen: logits, log-probabilities, probabilities or values.
    """

    kind: str
    scale: str = "values"
    classes: int = 0
    reason: str = ""


@dataclass(frozen=True)
class LayerFacts:
    """One call of one module: what it gave, and the gradient that came back to it."""

    path: str
    module: str
    is_leaf: bool
    output: TensorFacts
    gradient: TensorFacts | None = None


@dataclass(frozen=True)
class ParameterFacts:
    """One parameter: its values, its gradient (None when it got none), and whether the optimizer holds it."""

    name: str
    values: TensorFacts
    requires_grad: bool
    in_optimizer: bool
    gradient: TensorFacts | None = None


@dataclass(frozen=True)
class FirstPass:
    """One forward and backward pass on one batch, everything measured."""

    loss: float
    loss_name: str
    loss_assumed: bool
    loss_reason: str
    task: Task
    chance_loss: float | None
    chance_reason: str
    head: str
    batch_size: int
    training: bool
    output: TensorFacts | None
    layers: tuple[LayerFacts, ...]
    parameters: tuple[ParameterFacts, ...]


@dataclass(frozen=True)
class BatchOrder:
    """How much a sample's own output changes when the same samples come in another order, in eval mode.

    `influence` is relative to the size of the outputs, and `noise` the change by other luck alone; `first` is the first
    module at which a sample has not kept its values.
    """

    influence: float
    noise: float
    first: str
    place: str
    samples: int


@dataclass(frozen=True)
class BatchMixing:
    """How much the outputs of some samples change when another sample of the batch is replaced, in eval mode.

    `influence` is the largest change of an untouched sample's output relative to the size of the outputs, whichever
    dimension holds the samples; `first` is the first module, in calling order, at which an untouched sample changes,
    and `before` says that it already receives them mixed. `sure` is whether the loader says what a sample is;
    `batch_statistics` whether the place is a normalization that is told to use the batch also in eval mode, and `added`
    whether numbers about the whole batch only stand beside the sample's own there.
    """

    influence: float
    noise: float
    first: str
    first_module: str
    replaced: int
    pairs: int
    before: bool = False
    place: str = ""
    sure: bool = True
    batch_statistics: bool = False
    added: bool = False
