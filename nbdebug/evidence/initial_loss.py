"""The first loss, against guessing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import nn

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.loss_response import LossResponse
from nbdebug.experiments.constant_baseline import Guess, guess_for
from nbdebug.experiments.loss_family import recognize
from nbdebug.experiments.loss_of_outputs import LossBox, head_name, open_box
from nbdebug.sandbox import Sandbox
from nbdebug.setup.nested import Path, at
from nbdebug.setup.sample_dataset import seed_torch
from nbdebug.setup.user_code import user_code

__all__ = ["FirstGuess", "InitialLoss", "initial_loss"]


@dataclass(frozen=True)
class FirstGuess:
    """One output at the start, against answers that know nothing of the inputs.

    `guess` is the loss of saying nothing (equal scores; for numbers the worse of zero and their mean), `constant`
    that of the best answer that is the same for all samples, which is `best`, one value for each output unit.
    `untrained` are the losses of copies with fresh weights, `soon` the least loss within the first steps of a training.
    """

    name: str
    kind: str
    place: str
    classes: int
    rows: int
    loss: float
    guess: float
    constant: float
    best: tuple[float, ...]
    says: str
    untrained: tuple[float, ...] = ()
    soon: float = math.inf

    @property
    def is_constant(self) -> bool:
        """Whether one answer is right for all samples of the batch, so that there is nothing to guess."""
        return self.constant < (1e-9 if self.kind == "regression" else 0.01) * self.guess

    @property
    def sampling_gain(self) -> float:
        """What frequencies counted in so few samples win by chance, as Miller and Madow have it."""
        if self.classes < 2 or self.rows == 0:
            return 0.0
        return self.guess / math.log(self.classes) * (self.classes - 1) / (2 * self.rows)


@dataclass(frozen=True)
class InitialLoss:
    """The first loss of each output whose loss is understood."""

    guesses: tuple[FirstGuess, ...]
    reason: str = ""


FRESH = 3  # copies with new weights; all of them have to agree
FAR = 1.5  # times the loss of guessing, before it is worth a look how soon the training makes up for it
STEPS, ROUND = 40, 4


@probe
def initial_loss(sandbox: Sandbox, response: LossResponse) -> InitialLoss:
    """Compare the initial loss with chance level, also after re-initialization."""
    sandbox.ready_to_train()
    box = open_box(sandbox, sandbox.batch(), inside=True)
    if box.taped is not None and box.taped.has_margin:
        raise NotApplicable("the target changes the prediction, as margins do, so that guessing has no known loss")
    known = {head.name: head for head in response.heads}
    guesses: list[tuple[Path, FirstGuess]] = []
    for path, output in box.heads.items():
        head = known.get(head_name(path))
        if head is None or (head.family == "linear" and head.scale != "log-probabilities"):
            continue
        guess = guess_for(recognize(box, path), output, head.class_dim)
        if guess is None:
            continue
        first = _first(box, path, guess, head.place)
        if all(math.isfinite(value) for value in (first.loss, first.guess, first.constant)):
            guesses.append((path, first))
    if not guesses:
        raise NotApplicable("the chance level of this loss is unknown")
    fresh = _untrained(sandbox, box, {path: first.constant for path, first in guesses})
    is_far = any(first.loss > FAR * first.guess for _, first in guesses)
    soon = _soon(sandbox.fresh(), min(first.guess for _, first in guesses)) if is_far else math.inf
    return InitialLoss(tuple(replace(first, untrained=fresh.get(path, ()), soon=soon) for path, first in guesses))


def _first(box: LossBox, path: Path, guess: Guess, place: str) -> FirstGuess:
    return FirstGuess(
        name=head_name(path),
        kind=guess.kind,
        place=place,
        classes=guess.classes,
        rows=guess.rows,
        loss=box.loss(path, box.heads[path]),
        guess=max(box.loss(path, output) for output in guess.uninformed),
        constant=box.loss(path, guess.constant),
        best=guess.best,
        says=guess.says,
    )


def _soon(sandbox: Sandbox, enough: float) -> float:
    """Train for a few steps in the user's way and return the mean loss of the last round through the batches.

    The first round that is below `enough` ends it.
    """
    sandbox.ready_to_train()
    batches, losses = sandbox.batches(ROUND), list[float]()
    try:
        for step in range(STEPS):
            losses.append(sandbox.plain_step(batches[step % len(batches)]))
            is_round = (step + 1) % len(batches) == 0
            if is_round and sum(losses[-len(batches) :]) / len(batches) < enough:
                break
    except NotApplicable:
        return math.inf
    return sum(losses[-len(batches) :]) / len(batches)


def _untrained(sandbox: Sandbox, box: LossBox, constants: dict[Path, float]) -> dict[Path, tuple[float, ...]]:
    """Return the losses of the same layers with fresh weights: those cannot have been trained.

    A copy that knows no more than the best constant answer is enough: it can no longer be that all of them know.
    """
    losses: dict[Path, list[float]] = {path: [] for path in constants}
    for seed in range(FRESH):
        seed_torch(seed + 1)
        refresh(sandbox.model)
        with torch.no_grad():
            answer = box.answer(box.batch)
        for path in constants:
            losses[path].append(box.loss(path, at(answer, path)))
        if all(losses[path][-1] >= constant for path, constant in constants.items()):
            break
    return {path: tuple(values) for path, values in losses.items()}


@torch.no_grad()
def refresh(model: nn.Module) -> None:
    """Return every layer new weights as it draws them itself; what draws none gets its own values in another order."""
    drawn: set[int] = set()
    for module in model.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset) and not isinstance(module, torch.jit.ScriptModule):
            with user_code(passing=()):  # one that needs arguments keeps its values for the shuffle below
                reset()
                drawn.update(id(p) for p in module.parameters(recurse=False))
    for parameter in model.parameters():
        if id(parameter) not in drawn:
            flat = parameter.flatten()
            parameter.copy_(flat[torch.randperm(flat.numel(), device=flat.device)].reshape(parameter.shape))
