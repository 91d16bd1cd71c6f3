"""Targets that are random draws which the prediction never saw."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.repeated_reads import Rereading
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.tape import Taint, Tape, record
from nbdebug.experiments.tape.read import LOSSES
from nbdebug.experiments.tape.taint import read_operands
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.user_code import required_user_code

__all__ = ["TargetOrigin", "target_origin", "targets_drawn_at_random"]


@dataclass(frozen=True)
class TargetOrigin:
    """What the target of the main term is made of.

    `is_drawn` says that it is made of random draws and of nothing else, `is_seen` that the prediction depends on one of
    them, `is_sorted` that distributions are compared. `variation` is its standard deviation, relative to the mean size.
    `added` is the standard deviation of the noise that was added in place to an entry of the batch which the model then
    reads and the loss compares with, relative to that of the entry; 0 where there is none.
    """

    loss_name: str
    is_drawn: bool
    is_seen: bool
    is_sorted: bool
    variation: float
    place: str
    added: float = 0.0
    is_apart: bool = False  # the target comes from entries of the batch that the prediction does not depend on


@probe
def target_origin(sandbox: Sandbox, trial: TrialRun | None) -> TargetOrigin:
    """Follow the target of the main term, and the prediction, back to random draws."""
    if trial is not None:
        require_run(trial)
    sandbox.ready_to_train()
    batch = sandbox.batch()
    with required_user_code("the run fails ({kind})", passing=()):
        tape = record(sandbox, batch)
    comparison, place = tape.main.comparison, "train_step" if tape.is_step else "loss_fn"
    if comparison is None or tape.target is None:
        return TargetOrigin("", False, False, False, math.nan, place)
    known = tape.loss_name in LOSSES or (tape.loss_name == "sub" and tape.target.shape == tape.prediction.shape)
    is_drawn = tape.recording.values[comparison.target].taint == Taint.RANDOM and known
    drawn, names = _behind(tape, comparison.target)
    seen, others = _behind(tape, comparison.prediction)
    values = tape.target.value.double()
    variation = float(values.std(correction=0) / values.abs().mean().clamp_min(1e-12)) if values.numel() else math.nan
    is_sorted = bool({"sort", "argsort", "topk"} & (names | others))
    added = _noise_in_place(tape, comparison.target, comparison.prediction, batch)
    sources = set(tape.target.sources)
    is_apart = bool(sources) and not sources & set(tape.prediction.sources)
    return TargetOrigin(tape.loss_name, is_drawn, bool(drawn & seen), is_sorted, variation, place, added, is_apart)


def _noise_in_place(tape: Tape, target: int, prediction: int, batch: Batch) -> float:
    """Return how much noise was added in place to the entry of the batch that is both the input and the target."""
    recording, entry = tape.recording, target
    is_noisy = False
    while (op := recording.producer(entry)) is not None and entry in op.changed.values():
        others = [recording.values[n].taint for n in op.inputs if op.changed.get(n) != entry]
        is_noisy = is_noisy or any(taint & Taint.RANDOM for taint in others)
        entry = next(old for old, new in op.changed.items() if new == entry)
    value, after = recording.values[entry], tape.target.value if tape.target is not None else None
    if not is_noisy or value.producer >= 0 or len(value.sources) != 1 or after is None:
        return 0.0
    before = {**batch.inputs, **batch.targets}.get(next(iter(value.sources)))
    if before is None or before.shape != after.shape or not before.is_floating_point():
        return 0.0
    if target not in _ancestors(tape, prediction):
        return 0.0
    return float((after.to(before) - before).double().std() / before.double().std().clamp_min(1e-12))


def _ancestors(tape: Tape, number: int) -> set[int]:
    seen, stack = set[int](), [number]
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            op = tape.recording.producer(current)
            stack += op.inputs if op is not None else ()
    return seen


def _behind(tape: Tape, number: int) -> tuple[set[int], set[str]]:
    """Return the ops that drew what a value is made of, and the names of all ops on the way."""
    drawn, names, seen, stack = set[int](), set[str](), set[int](), [number]
    while stack:
        current = stack.pop()
        op = tape.recording.producer(current)
        if op is None or current in seen:
            continue
        seen.add(current)
        names.add(op.name)
        stack += read_operands(op.name, list(op.inputs))  # `randn_like(noise)` reads no more than its shape
        if op.random_state is not None:
            drawn.add(op.index)
    return drawn, names


@check(explains=("labels-unrelated-to-inputs", "cannot-overfit-batch", "worse-than-baseline", "loss-ignores-targets"))
def targets_drawn_at_random(
    origin: TargetOrigin,
    rereading: Rereading | None,
    *,
    variation: float = 0.5,  # noisy labels around 1, as GANs use, have less than 0.2; normal draws have 1.25
    added: float = 0.1,  # noise in place, relative to the data; dequantization adds 1/256 of their range
    alone: float = 0.25,  # of the samples that are read again; our choice
) -> Iterator[Finding]:
    """The target is random noise that the model never sees, changes while its input stays, or got noise in place.

    nbdebug follows the target of the loss back to what it was computed from. If that is only random draws, and none of
    them reaches the prediction, there is nothing to learn. The same holds where noise is added in place to a tensor of
    the batch that is both the input of the model and the target. And nbdebug reads samples again with other random
    seeds: a sample with the same input and another target was augmented in its target alone.

    Why it matters: noise drawn anew for the target cannot be predicted. The loss falls to the variance of the noise and
    stays there; the model learns to output its mean.

    Noise that is added in place to the input is in the clean target as well, if both are one tensor: the model is
    trained to reproduce the noise.

    What to try: draw the noise once, and use the same tensor for the input and for the target. Add noise out of place,
    `noisy = clean + noise`. Assign what a transform of the input returns.
    """
    if rereading is not None and origin.is_apart and rereading.target_alone > alone * rereading.read:
        yield _alone(rereading, alone)
    if origin.is_drawn and not origin.is_seen and not origin.is_sorted and origin.variation > variation:
        yield Finding(
            f"`{origin.loss_name}` compares the prediction with random draws that the model never sees (standard "
            f"deviation {origin.variation:.2f} of their mean size).",
            where=origin.place,
            severity="bug" if origin.loss_name in LOSSES else "suspect",
            evidence={
                "standard deviation over mean size": origin.variation,
                "threshold": variation,
                "source": "Ho et al., 2020: the network predicts the noise that was added to its input",
            },
            remedies=(
                Remedy(
                    "Use the noise that was added to the input as the target.",
                    "noise = torch.randn_like(x)\nloss = mse_loss(model(x + noise), noise)",
                ),
            ),
        )
    if origin.added > added:
        yield Finding(
            "The noise that is added to the input is in the target as well (its standard deviation is "
            f"{origin.added:.2f} of that of the data): it is added in place, and both are one tensor.",
            where=origin.place,
            severity="suspect",
            evidence={
                "noise relative to the data": origin.added,
                "threshold": added,
                "source": "Vincent et al., 2008: a denoising autoencoder predicts the clean input",
            },
            remedies=(
                Remedy(
                    "Add the noise out of place.",
                    "noisy = clean + torch.randn_like(clean)  # not clean += …",
                ),
            ),
        )


def _alone(rereading: Rereading, limit: float) -> Finding:
    return Finding(
        f"{rereading.target_alone} of {rereading.read} samples have another target when they are read again, for "
        "exactly the same input: the augmentation changes the target alone.",
        where="loader",
        severity="suspect",
        evidence={
            "samples read again": rereading.read,
            "same input, another target": rereading.target_alone,
            "threshold": limit,
            "source": "four readings of each sample, from other random seeds",
        },
        remedies=(
            Remedy(
                "Assign what the transform of the input returns: most of them return a copy.",
                "image = np.fliplr(image).copy()\npoint[0] = width - 1 - point[0]",
            ),
            Remedy(
                "Leave this augmentation out.",
                "train_data.transform = val_data.transform",
                Patch("read-like-validation"),
            ),
        ),
    )
