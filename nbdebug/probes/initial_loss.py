"""The first loss, against guessing."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.evidence import FirstGuess, InitialLoss, LossResponse
from nbdebug.registry import probe
from nbdebug.subject.drawing import seed_torch
from nbdebug.subject.nest import Path, at
from nbdebug.twin import Twin
from nbdebug.twin.guesses import Guess, guess_for
from nbdebug.twin.loss_box import LossBox, head_name, open_box
from nbdebug.twin.loss_family import recognise

__all__ = ["initial_loss"]

FRESH = 3  # copies with new weights; all of them have to agree
FAR = 1.5  # times the loss of guessing, before it is worth a look how soon the training makes up for it
STEPS, ROUND = 40, 4


@probe
def initial_loss(twin: Twin, response: LossResponse) -> InitialLoss:
    """Compare the initial loss with chance level, also after re-initialization."""
    twin.ready_to_train()
    box = open_box(twin, twin.batch())
    known = {head.name: head for head in response.heads}
    guesses: list[tuple[Path, FirstGuess]] = []
    for path, output in box.heads.items():
        head = known.get(head_name(path))
        if head is None or (head.family == "linear" and head.scale != "log-probabilities"):
            continue
        guess = guess_for(recognise(box, path), output, head.class_dim)
        if guess is None:
            continue
        first = _first(box, path, guess, head.place)
        if all(math.isfinite(value) for value in (first.loss, first.guess, first.constant)):
            guesses.append((path, first))
    if not guesses:
        raise NotApplicable("the chance level of this loss is unknown")
    fresh = _untrained(twin, box, {path: first.constant for path, first in guesses})
    soon = _soon(twin.fresh()) if any(first.loss > FAR * first.guess for _, first in guesses) else math.inf
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


def _soon(twin: Twin) -> float:
    """Train for a few steps in the user's way and give the mean loss of the last round through the batches."""
    twin.ready_to_train()
    batches = twin.batches(ROUND)
    try:
        losses = [twin.plain_step(batches[step % len(batches)]) for step in range(STEPS)]
    except NotApplicable:
        return math.inf
    return sum(losses[-len(batches) :]) / len(batches)


def _untrained(twin: Twin, box: LossBox, constants: dict[Path, float]) -> dict[Path, tuple[float, ...]]:
    """Give the losses of the same layers with fresh weights: nobody can have trained those.

    A copy that knows no more than the best constant answer is enough: it can no longer be that all of them know.
    """
    losses: dict[Path, list[float]] = {path: [] for path in constants}
    for seed in range(FRESH):
        seed_torch(seed + 1)
        refresh(twin.model)
        with torch.no_grad():
            answer = box.answer(box.batch)
        for path in constants:
            losses[path].append(box.loss(path, at(answer, path)))
        if all(losses[path][-1] >= constant for path, constant in constants.items()):
            break
    return {path: tuple(values) for path, values in losses.items()}


@torch.no_grad()
def refresh(model: nn.Module) -> None:
    """Give every layer new weights as it draws them itself; what draws none gets its own values in another order."""
    drawn: set[int] = set()
    for module in model.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset) and not isinstance(module, torch.jit.ScriptModule):
            try:
                reset()
                drawn.update(id(p) for p in module.parameters(recurse=False))
            except Exception:  # one that needs arguments keeps its values for the shuffle below
                continue
    for parameter in model.parameters():
        if id(parameter) not in drawn:
            flat = parameter.flatten()
            parameter.copy_(flat[torch.randperm(flat.numel(), device=flat.device)].reshape(parameter.shape))
