"""How well predictions fit their targets, for any shape of program: both are read where the loss receives them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from nbdebug.errors import Cancelled, NbdebugError, OutOfTime
from nbdebug.experiments.learning_curve import Fit, accuracy, explained_variance
from nbdebug.experiments.tape.program import TapeUnreadable
from nbdebug.experiments.tape.taint import Taint
from nbdebug.experiments.tape.tape import Tape, record
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["Answers", "answers_on_tape", "compares_with_batch", "fit_on_tape"]

_CLASSES = ("cross_entropy", "nll_loss", "multi_margin_loss", "gather", "take_along_dim", "__getitem__")
_ERRORS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "gaussian_nll_loss")
_IGNORED = -100  # the default ignore_index of cross_entropy and nll_loss
AGREED = 0.95  # of the samples, for which the gradient must have the sign of the target


@dataclass(frozen=True)
class Answers:
    """Predicted and true classes, or predicted and true numbers."""

    is_classes: bool
    predicted: torch.Tensor
    target: torch.Tensor

    @property
    @torch.no_grad()
    def fit(self) -> Fit | None:
        """How well they agree; None where the targets do not vary."""
        return (accuracy if self.is_classes else explained_variance)(self.predicted, self.target)


def fit_on_tape(sandbox: Sandbox, batch: Batch) -> Fit | None:
    """Measure how well the copy predicts this batch's targets; None where the program has no such target."""
    answers = answers_on_tape(sandbox, batch)
    return answers.fit if answers is not None else None


def answers_on_tape(sandbox: Sandbox, batch: Batch) -> Answers | None:
    """Return what the copy predicts for this batch's targets; None where the program has no such target.

    They are read in eval mode where the program runs in it, also by a training step that calls `model.train()`.
    """
    if not compares_with_batch(sandbox, batch):
        return None
    by_step = sandbox.train_step is not None and sandbox.compute_loss is None
    steps = (False,) if sandbox.train_step is None else (by_step, not by_step) if sandbox.is_loss_known else (True,)
    for step in steps:
        for training in (False, True):
            try:
                with sandbox.mode(training):
                    answers = _answers_of(record(sandbox, batch, step=step, hold_modes=True))
            except (Cancelled, OutOfTime):
                raise
            except (NbdebugError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError):
                continue  # a program may run in one mode, or in one of its two forms, only
            if answers is not None and answers.fit is not None:
                return answers
    return None


def compares_with_batch(sandbox: Sandbox, batch: Batch) -> bool:
    """Whether the user's own step compares its outputs with anything of the batch, as far as it can be read.

    Where it compares with constants or noise alone, as adversarial players do, `loss_fn(model(inputs), targets)` runs,
    but is nothing that this program minimizes.
    """
    if sandbox.train_step is None or sandbox.compute_loss is not None:
        return True
    try:
        with sandbox.mode(training=False):
            tape = record(sandbox, batch, step=True, hold_modes=True)
    except (Cancelled, OutOfTime):
        raise
    except (NbdebugError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError):
        return True
    return tape.target is None or bool(tape.target.sources)


@torch.no_grad()
def _answers_of(tape: Tape) -> Answers | None:
    if not _is_given(tape):
        return None
    assert tape.target is not None
    predicted, target, name = tape.prediction.value, tape.target.value, tape.loss_name
    if not bool(torch.isfinite(predicted).any()):
        return None
    if name in _CLASSES and not target.is_floating_point():
        return _of_classes(tape, predicted, target)
    if name in ("cross_entropy", "kl_div") or _is_one_hot(target):
        return _of_soft_classes(tape, predicted, target)
    if predicted.numel() != target.numel():
        return None
    target = target.reshape(predicted.shape)
    if name in ("binary_cross_entropy", "binary_cross_entropy_with_logits", "multilabel_soft_margin_loss"):
        return _of_binary(predicted, target, 0.5 if name == "binary_cross_entropy" else 0.0)
    if name == "soft_margin_loss":
        return Answers(True, predicted > 0, target > 0)
    if name.startswith("mul") and bool(((target == 0) | (target == 1)).all()):
        return _of_products(tape, predicted, target)
    return _of_values(tape, predicted, target)


def _is_given(tape: Tape) -> bool:
    """Whether the target is data: neither drawn, nor a constant, nor computed by a network."""
    if tape.main.comparison is None:
        return False
    taint = tape.recording.values[tape.main.comparison.target].taint
    computed = Taint.PARAMETER | Taint.FROZEN | Taint.RANDOM | Taint.UNSEEN
    return bool(taint & Taint.BATCH) and not taint & computed


def _of_classes(tape: Tape, predicted: torch.Tensor, target: torch.Tensor) -> Answers | None:
    comparison = tape.main.comparison
    assert comparison is not None
    op = tape.recording.ops[comparison.op]
    dim = 1 if predicted.dim() > 1 else 0
    if op.name in ("gather", "take_along_dim"):
        found = op.kwargs.get("dim", op.args[1] if len(op.args) > 1 and isinstance(op.args[1], int) else -1)
        dim = int(found) % predicted.dim()
        target = target.squeeze(dim) if target.dim() == predicted.dim() and target.shape[dim] == 1 else target
    if (*predicted.shape[:dim], *predicted.shape[dim + 1 :]) != tuple(target.shape):
        return None
    counted = (target != op.kwargs.get("ignore_index", _IGNORED)) & (target >= 0)
    if not bool(counted.any()) or (not comparison.is_loss and not _asks_for_class(tape, target, dim)):
        return None
    return Answers(True, predicted.argmax(dim)[counted], target[counted])


def _asks_for_class(tape: Tape, target: torch.Tensor, dim: int) -> bool:
    """Whether a higher score of the target's class moves the loss one way, which it does not for weighted actions."""
    try:
        gradient = tape.gradient().gather(dim, target.unsqueeze(dim))
    except TapeUnreadable:
        return False
    return _one_way(gradient < 0) and not bool((gradient == 0).double().mean() > 0.5)


def _one_way(signs: torch.Tensor) -> bool:
    """Whether nearly all samples agree; a loss with a wrong sign still has a target."""
    share = float(signs.double().mean()) if signs.numel() else 0.5
    return max(share, 1 - share) >= AGREED


def _of_soft_classes(tape: Tape, predicted: torch.Tensor, target: torch.Tensor) -> Answers | None:
    if predicted.shape != target.shape or predicted.dim() < 2:
        return None
    dim = 1 if tape.loss_name == "cross_entropy" else -1
    wanted = target.argmax(dim)
    if tape.loss_name.startswith("mul") and not _asks_for_class(tape, wanted, dim):
        return None
    return Answers(True, predicted.argmax(dim), wanted)


def _is_one_hot(target: torch.Tensor) -> bool:
    if target.dim() < 2 or target.shape[-1] < 2:
        return False
    return bool(((target == 0) | (target == 1)).all()) and bool((target.sum(-1) == 1).all())


def _of_binary(predicted: torch.Tensor, target: torch.Tensor, edge: float) -> Answers | None:
    if bool(((target == 0) | (target == 1)).all()):
        return Answers(True, predicted > edge, target > 0.5)
    return Answers(False, predicted.sigmoid() if edge == 0.0 else predicted, target)


def _of_products(tape: Tape, predicted: torch.Tensor, target: torch.Tensor) -> Answers | None:
    """Measure a loss such as `-(y * log(p) + (1 - y) * log(1 - p))`, whose gradient at the head changes sign with y."""
    if len(tape.heads) != 1 or tape.heads[0].value.shape != predicted.shape:
        return None
    try:
        gradient = tape.gradient(tape.heads[0].number)
    except TapeUnreadable:
        return None
    if not _one_way(((gradient < 0) == (target > 0.5))[gradient != 0]):
        return None
    edge = math.log(0.5) if bool((predicted <= 0).all()) else 0.5 if bool((predicted >= 0).all()) else 0.0
    return Answers(True, predicted > edge, target > 0.5)


def _of_values(tape: Tape, predicted: torch.Tensor, target: torch.Tensor) -> Answers | None:
    comparison = tape.main.comparison
    assert comparison is not None
    if comparison.name == "poisson_nll_loss":
        is_log = tape.recording.ops[comparison.op].kwargs.get("log_input", True)
        return Answers(False, predicted.exp() if is_log else predicted, target)
    if comparison.name not in _ERRORS and not _wants_equal(tape, target):
        return None
    return Answers(False, predicted, target) if predicted.dim() and len(predicted) > 1 else None


def _wants_equal(tape: Tape, target: torch.Tensor) -> bool:
    """Whether the loss is lowest where the prediction is the target, and not a rank, a direction or a part of it."""
    wanted = target.to(tape.prediction.value.dtype)
    try:
        exact, raised, doubled = (float(tape.replay(w)) for w in (wanted, wanted + wanted.std(), 2 * wanted))
    except (TapeUnreadable, RuntimeError, ValueError):
        return False
    return exact <= tape.loss and min(raised, doubled) - exact > 1e-4 * abs(exact)
