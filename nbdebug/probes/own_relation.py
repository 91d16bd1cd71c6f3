"""Let the model itself look for a relation of inputs and targets, where simple models find none."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.stats import ttest_rel, wilcoxon

from nbdebug.control import Control
from nbdebug.errors import NotApplicable, OutOfTime
from nbdebug.evidence import Baselines, OwnRelation, Samples, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.subject.drawing import drawn
from nbdebug.twin import Twin

__all__ = ["own_relation"]

SAMPLES = 1200
TRAINED_ON = 600  # few enough to be learned by heart in some hundred steps, where there is nothing else to learn
STEPS = 3000
SECONDS = 20.0
CHUNK = 8  # held-out samples whose loss is compared as one
BY_HEART = 0.2  # of the loss: so much better do their own targets fit samples that were learned by heart
LOOKS = 12  # how often the training is interrupted to see whether the answer is clear


@probe(quick=False)
def own_relation(
    twin: Twin, samples: Samples, simple: Baselines | None, trial: TrialRun, control: Control
) -> OwnRelation:
    """Train on some samples, and test on others whether targets match their own inputs."""
    require_run(trial)
    if simple is not None and simple.p < 0.01:  # as the check judges it
        raise NotApplicable("baselines already predict the targets")
    if samples.train.kind == "none" or samples.train.target_is_input:
        raise NotApplicable("there is no target separate from the input")
    if twin.subject.whole_batches:
        raise NotApplicable("the model only runs on whole batches, so samples cannot be held out")
    batches = _batches(twin, control)
    used = max(2, min(2 * len(batches) // 3, TRAINED_ON // max(1, batches[0].size if batches else 1)))
    learned, judged = batches[:used], batches[used:]
    if len(batches) < 3 or sum(batch.size for batch in judged) < 4 * CHUNK:
        raise NotApplicable("too few samples to train on some and evaluate on others")
    twin.ready_to_train()
    course = _Course()
    try:
        with control.limit(SECONDS):
            _train(twin, learned, judged, course, control)
    except OutOfTime:
        if control.is_over or len(course.losses) < 20:
            raise
    return _evidence(twin, learned, judged, course)


def _evidence(twin: Twin, learned: list[Batch], judged: list[Batch], course: _Course) -> OwnRelation:
    known, (own, other) = _judge(twin, learned), _judge(twin, judged)
    return OwnRelation(
        steps=len(course.losses),
        trained_on=sum(batch.size for batch in learned),
        held_out=sum(batch.size for batch in judged),
        first_loss=course.losses[0],
        last_loss=float(np.mean(known[0])),
        by_heart=_is_by_heart(known, (own, other)),
        exhausted=len(course.losses) >= STEPS,
        held_loss=float(np.mean(own)),
        shuffled_loss=float(np.mean(other)),
        p=_p_value(own, other),
    )


@dataclass
class _Course:
    """The losses so far."""

    losses: list[float] = field(default_factory=list)


def _batches(twin: Twin, control: Control) -> list[Batch]:
    """Draw samples at random; each is in one batch only."""
    subject = twin.subject
    parts = drawn(
        subject.feed,
        subject.wrap,
        count=SAMPLES,
        seconds=SECONDS / 4,
        tell=lambda f: control.progress(0.2 * f, "loading samples"),
    )
    batches = [part.batch.to(twin.device) for part in parts]
    full = max((batch.size for batch in batches), default=0)
    return [batch for batch in batches if batch.size == full]


def _train(twin: Twin, learned: list[Batch], judged: list[Batch], course: _Course, control: Control) -> None:
    """Train until unseen samples are predicted, or those trained on are known by heart, or steps and time are over."""
    pause = 3 * len(learned)
    for step in range(STEPS):
        control.progress(0.2 + 0.8 * step / STEPS, "training on some samples to predict others")
        course.losses.append(twin.plain_step(learned[step % len(learned)]))
        if (step + 1) % pause == 0:
            pause = max(pause, (step + 1) // LOOKS // len(learned) * len(learned))
            unseen = _judge(twin, judged)
            if _p_value(*unseen) < 1e-4 or _is_by_heart(_judge(twin, learned), unseen):
                return


def _is_by_heart(known: tuple[np.ndarray, np.ndarray], unseen: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether samples fit their own targets much better than those of others, and unseen samples far less so.

    What unseen samples share was not learned by heart, even if they are too few to be sure of it yet.
    """
    gap, shared = (float(np.mean(other) - np.mean(own)) for own, other in (known, unseen))
    much = gap > BY_HEART * max(abs(float(np.mean(known[1]))), 1e-9)
    return bool(np.isfinite(gap) and much and not shared > gap / 2)


@torch.no_grad()
def _judge(twin: Twin, batches: list[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Give the losses of small groups with their own targets, and with the targets of other samples."""
    own, other = [], []
    with twin.mode(training=False):
        for batch in batches:
            turned = _with_other_targets(batch)
            for start in range(0, batch.size - CHUNK + 1, CHUNK):
                chosen = torch.arange(start, start + CHUNK)
                own.append(float(twin.run(batch.select(chosen)).loss))
                other.append(float(twin.run(turned.select(chosen)).loss))
    return np.asarray(own), np.asarray(other)


def _with_other_targets(batch: Batch) -> Batch:
    order = torch.from_numpy(np.random.default_rng(0).permutation(batch.size))

    def turn(_: str, target: torch.Tensor) -> torch.Tensor:
        return target[order.to(target.device)] if target.dim() and target.shape[0] == batch.size else target

    return batch.map_targets(turn)


def _p_value(own: np.ndarray, other: np.ndarray) -> float:
    """Give the probability that own targets fit so much better by chance; the more favourable of two paired tests."""
    if len(own) < 4 or not np.isfinite(own).all() or not np.isfinite(other).all() or np.allclose(own, other):
        return 1.0
    ranks = float(wilcoxon(own, other, alternative="less").pvalue)
    return min(1.0, 2 * min(ranks, float(ttest_rel(own, other, alternative="less").pvalue)))
