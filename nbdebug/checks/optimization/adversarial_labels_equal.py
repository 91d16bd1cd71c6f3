"""A critic and a generator that are trained with the same label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.experiments.tape.ops import Op, Recording
from nbdebug.experiments.tape.program import run_recorded
from nbdebug.experiments.tape.taint import Taint
from nbdebug.experiments.tape.terms import summands
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_run

__all__ = ["AdversarialLabels", "adversarial_labels", "adversarial_labels_equal"]


@dataclass(frozen=True)
class AdversarialLabels:
    """The labels, as 0 or 1, that a critic's outputs are compared with.

    `real` for samples of the batch, `generated` where the critic is trained on what another network made, and
    `generator` where that other network is trained.
    """

    real: tuple[int, ...]
    generated: tuple[int, ...]
    generator: tuple[int, ...]


@dataclass(frozen=True)
class _Judgment:
    op: Op
    label: int
    parameters: frozenset[int]
    trained: frozenset[int]
    roots: frozenset[int]


_LOSSES = ("binary_cross_entropy_with_logits", "binary_cross_entropy", "mse_loss")


@probe
def adversarial_labels(sandbox: Sandbox) -> AdversarialLabels:
    """Read the labels that your training step gives to real and to generated samples."""
    if sandbox.train_step is None:
        raise NotApplicable("no train_step was passed, so only one loss is known")
    sandbox.ready_to_train()
    with required_run():
        recording = run_recorded(sandbox, sandbox.batch(), step=True)
    judged = list(_judgments(recording))
    real = [j for j in judged if j.parameters == j.trained and any(j.parameters < other.parameters for other in judged)]
    if len(recording.roots) < 2 or not real:
        raise NotApplicable("the training step has no critic that judges real and generated samples")
    critic = frozenset().union(*(j.parameters for j in real))
    fakes = [j for j in judged if critic < j.parameters]
    theirs = {root for j in real for root in j.roots}
    own = [j for j in fakes if j.trained <= critic or j.roots & theirs]
    return AdversarialLabels(
        tuple(j.label for j in real), tuple(j.label for j in own), tuple(j.label for j in fakes if j not in own)
    )


def _judgments(recording: Recording) -> Iterator[_Judgment]:
    """Return the losses that compare outputs with one label for all, and that are minimized."""
    lowered = {number: root for root in recording.roots for number, factor in summands(recording, root) if factor > 0}
    for op in recording.ops:
        outputs = [number for number in op.outputs if number in lowered]
        if op.name not in _LOSSES or len(op.inputs) < 2 or not outputs:
            continue
        label = _label(recording.values[op.inputs[1]].tensor)
        if label is None:
            continue
        parameters, trained = (frozenset(_parameters(recording, op.inputs[0], along)) for along in (False, True))
        yield _Judgment(op, label, parameters, trained, frozenset(lowered[number] for number in outputs))


def _label(target: torch.Tensor | None) -> int | None:
    """Return 1 or 0 for a target that is on one side of a half, like smoothed or noisy labels; None for others."""
    if target is None or not target.is_floating_point() or not target.numel():
        return None
    low, high = float(target.min()), float(target.max())
    return 1 if low > 0.5 and high <= 1.5 else 0 if high < 0.5 and low >= -1.5 else None


def _parameters(recording: Recording, number: int, along_gradient: bool) -> Iterator[int]:
    """Return the parameters that a value is computed from, all or those that its gradient reaches."""
    values, todo, seen = recording.values, [number], {number}
    while todo:
        current = values[todo.pop()]
        if current.producer < 0 and current.taint & Taint.PARAMETER:
            yield current.number
        op = recording.producer(current.number)
        for inner in op.inputs if op is not None else ():
            if inner not in seen and (values[inner].requires_grad or not along_gradient):
                seen.add(inner)
                todo.append(inner)


@check
def adversarial_labels_equal(labels: AdversarialLabels) -> Iterator[Finding]:
    """The critic of a GAN gets the same label for real and generated samples, or the generator gets the critic's.

    nbdebug records one call of your training step and reads the constant targets of its binary losses: those of the
    critic on the batch, those of the critic on what the generator made, and those of the generator.

    Why it matters: a critic that may always answer "real" learns nothing, and a generator with the critic's own label
    for generated samples learns to be recognized.

    What to try: real samples 1 and generated samples 0 for the critic, generated samples 1 for the generator.
    """
    real, generated, generator = (set(part) for part in (labels.real, labels.generated, labels.generator))
    says = ""
    if len(real) == 1 and real == generated:
        says = f"The critic gets the label {labels.real[0]} for real and for generated samples alike."
    elif len(generated) == 1 and generated == generator:
        says = (
            f"The generator is trained with the label {labels.generated[0]}, which the critic learns for its samples."
        )
    if says:
        yield Finding(
            says,
            where="train_step",
            evidence={
                "critic, real": list(labels.real),
                "critic, generated": list(labels.generated),
                "generator": list(labels.generator),
                "threshold": "different labels for the two sides",
                "source": "Goodfellow et al. 2014: the two minimize opposite losses",
            },
            remedies=(
                Remedy(
                    "Give the two sides different labels.",
                    "d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)\ng_loss = bce(D(fake), ones)",
                ),
            ),
        )
