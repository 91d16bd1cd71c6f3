"""Labels that the inputs do not predict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.stats import ttest_rel, wilcoxon

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.baselines import Baselines
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.sample_table import Samples
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.sample_dataset import drawn

__all__ = ["OwnRelation", "labels_unrelated_to_inputs", "own_relation"]


@dataclass(frozen=True)
class OwnRelation:
    """Whether the model itself, trained shortly, finds a relation of inputs and targets that holds for unseen samples.

    The losses are of held-out samples with their own targets and with those of other samples; `p` is the probability
    of such a difference by chance. `overfitted` says that the samples trained on fit their own targets much better,
    `exhausted` that all steps were taken.
    """

    steps: int
    trained_on: int
    held_out: int
    first_loss: float
    last_loss: float
    overfitted: bool
    exhausted: bool
    held_loss: float
    shuffled_loss: float
    p: float


SAMPLES = 1200
TRAINED_ON = 600  # few enough to be overfitted in some hundred steps, where there is nothing else to learn
STEPS = 3000
FEWEST_STEPS = 20
CHUNK = 8  # held-out samples whose loss is compared as one
OVERFITTED = 0.2  # of the loss: so much better do their own targets fit samples that were overfitted
LOOKS = 12  # how often the training is interrupted to see whether the answer is clear


@probe(quick=False)
def own_relation(
    sandbox: Sandbox, samples: Samples, simple: Baselines | None, trial: TrialRun, control: Control
) -> OwnRelation:
    """Train on some samples, and test on others whether targets match their own inputs."""
    require_run(trial)
    if simple is not None and simple.p < 0.01:  # as the check judges it
        raise NotApplicable("baselines already predict the targets")
    if samples.train.kind == "none" or samples.train.target_is_input:
        raise NotApplicable("there is no target separate from the input")
    if sandbox.setup.whole_batches:
        raise NotApplicable("the model only runs on whole batches, so samples cannot be held out")
    batches = _batches(sandbox, control)
    used = max(2, min(2 * len(batches) // 3, TRAINED_ON // max(1, batches[0].size if batches else 1)))
    learned, judged = batches[:used], batches[used:]
    if len(batches) < 3 or sum(batch.size for batch in judged) < 4 * CHUNK:
        raise NotApplicable("too few samples to train on some and evaluate on others")
    sandbox.ready_to_train()
    course = _Course()
    _train(sandbox, learned, judged, course, control)
    return _evidence(sandbox, learned, judged, course)


def _evidence(sandbox: Sandbox, learned: list[Batch], judged: list[Batch], course: _Course) -> OwnRelation:
    known, (own, other) = _judge(sandbox, learned), _judge(sandbox, judged)
    return OwnRelation(
        steps=len(course.losses),
        trained_on=sum(batch.size for batch in learned),
        held_out=sum(batch.size for batch in judged),
        first_loss=course.losses[0],
        last_loss=float(np.mean(known[0])),
        overfitted=_is_overfitted(known, (own, other)),
        exhausted=len(course.losses) >= STEPS,
        held_loss=float(np.mean(own)),
        shuffled_loss=float(np.mean(other)),
        p=_p_value(own, other),
    )


@dataclass
class _Course:
    """The losses so far."""

    losses: list[float] = field(default_factory=list)


def _batches(sandbox: Sandbox, control: Control) -> list[Batch]:
    """Draw samples at random; each is in one batch only."""
    setup = sandbox.setup
    parts = drawn(
        setup.feed,
        setup.wrap,
        count=SAMPLES,
        control=control,
        tell=lambda f: control.progress(0.2 * f, "loading samples"),
    )
    batches = [part.batch.to(sandbox.device) for part in parts]
    full = max((batch.size for batch in batches), default=0)
    return [batch for batch in batches if batch.size == full]


def _train(sandbox: Sandbox, learned: list[Batch], judged: list[Batch], course: _Course, control: Control) -> None:
    """Train until unseen samples are predicted, or those trained on are overfitted, or the steps are over."""
    pause = 3 * len(learned)
    for step in control.as_many(range(STEPS), fewest=FEWEST_STEPS):
        control.progress(0.2 + 0.8 * step / STEPS, "training on some samples to predict others")
        course.losses.append(sandbox.plain_step(learned[step % len(learned)]))
        if (step + 1) % pause == 0:
            pause = max(pause, (step + 1) // LOOKS // len(learned) * len(learned))
            unseen = _judge(sandbox, judged)
            if _p_value(*unseen) < 1e-4 or _is_overfitted(_judge(sandbox, learned), unseen):
                return


def _is_overfitted(known: tuple[np.ndarray, np.ndarray], unseen: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether samples fit their own targets much better than those of others, and unseen samples far less so.

    What unseen samples share was not learned by heart, even if they are too few to be sure of it yet.
    """
    gap, shared = (float(np.mean(other) - np.mean(own)) for own, other in (known, unseen))
    much = gap > OVERFITTED * max(abs(float(np.mean(known[1]))), 1e-9)
    return bool(np.isfinite(gap) and much and not shared > gap / 2)


@torch.no_grad()
def _judge(sandbox: Sandbox, batches: list[Batch]) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses of small groups with their own targets, and with the targets of other samples."""
    own, other = [], []
    with sandbox.mode(training=False):
        for batch in batches:
            turned = _with_other_targets(batch)
            for start in range(0, batch.size - CHUNK + 1, CHUNK):
                chosen = torch.arange(start, start + CHUNK)
                own.append(float(sandbox.run(batch.select(chosen)).loss))
                other.append(float(sandbox.run(turned.select(chosen)).loss))
    return np.asarray(own), np.asarray(other)


def _with_other_targets(batch: Batch) -> Batch:
    order = torch.from_numpy(np.random.default_rng(0).permutation(batch.size))

    def turn(_: str, target: torch.Tensor) -> torch.Tensor:
        return target[order.to(target.device)] if target.dim() and target.shape[0] == batch.size else target

    return batch.map_targets(turn)


def _p_value(own: np.ndarray, other: np.ndarray) -> float:
    """Return the probability that own targets fit so much better by chance; the more favorable of two paired tests."""
    if len(own) < 4 or not np.isfinite(own).all() or not np.isfinite(other).all() or np.allclose(own, other):
        return 1.0
    ranks = float(wilcoxon(own, other, alternative="less").pvalue)
    return min(1.0, 2 * min(ranks, float(ttest_rel(own, other, alternative="less").pvalue)))


REMEDIES = (
    Remedy("Inspect inputs with their labels.", "print(next(iter(loader)))"),
    Remedy("Shuffle and sort inputs and labels with the same index.", "x, y = x[order], y[order]"),
)


@check(basis="statistic", explains=("model-ignores-inputs", "worse-than-baseline", "loss-flat"))
def labels_unrelated_to_inputs(
    simple: Baselines | None,
    own: OwnRelation | None,
    *,
    p_value: float = 0.01,  # at 120 samples a correlation of 0.24 reaches it; our choice
    samples: int = 120,  # our choice: fewer give a note only
    surely: float = 0.003,  # for the validation data; 2,000 permutations and three models can reach 0.0015
) -> Iterator[Finding]:
    """The labels look unrelated to the inputs; they may be shuffled or misaligned.

    Nearest neighbors, a linear model and a random forest predict the labels of held-out samples, and the scores are
    compared with shuffled labels. Where they fail on the training data and not on the validation data, that is enough;
    where there is nothing to compare with, your model is trained briefly on some samples and evaluated on others.

    Why it matters: labels that belong to other samples can be memorized, but never predicted. The training loss falls
    slowly, and the validation error stays at chance level.

    What to try: inspect some samples with their labels. Look for inputs that are shuffled without the labels, for file
    lists sorted differently, and for an index that is off by one.
    """
    if simple is None and own is None:
        raise NotApplicable("neither simple models nor your own can be evaluated on this kind of target")
    if simple is not None and simple.p < p_value:
        return
    if simple is not None and simple.held_out is not None and simple.held_out < surely:
        yield _training_only(simple, surely)
        return
    if own is None:
        raise NotApplicable("simple models find no relation, and your model could not be trained to test for one")
    if own.p < p_value:
        return
    yield _finding(simple, own, samples, p_value)


def _finding(simple: Baselines | None, own: OwnRelation, samples: int, p_value: float) -> Finding:
    size = own.trained_on + own.held_out
    conclusive = own.overfitted or (own.exhausted and simple is not None)  # a run that was cut short is inconclusive
    enough = size >= samples and conclusive
    return Finding(
        f"The labels look unrelated to the inputs{_scores(simple)}. Your model (training loss {own.first_loss:.3g} to "
        f"{own.last_loss:.3g} in {own.steps} steps on {own.trained_on} samples) does no better on {own.held_out} "
        f"held-out samples (loss {own.held_loss:.3g}) than with shuffled targets ({own.shuffled_loss:.3g}; "
        f"p = {own.p:.2g}).",
        where="loader",
        severity="suspect" if enough else "note",
        evidence={
            "p of the own model": own.p,
            "p of simple models": simple.p if simple is not None else None,
            "score": simple.score if simple is not None else None,
            "chance": simple.chance if simple is not None else None,
            "samples": size,
            "threshold": p_value,
            "source": "permutation and paired tests against shuffled labels",
        },
        remedies=REMEDIES,
        exhibit=Bars(
            ("own targets", "shuffled targets"), (own.held_loss, own.shuffled_loss), "Loss on held-out samples"
        ),
    )


def _training_only(simple: Baselines, surely: float) -> Finding:
    return Finding(
        f"The training labels look unrelated to the inputs{_scores(simple)}, but the validation labels do not "
        f"(p = {simple.held_out:.1g}). The training labels may be shuffled or misaligned.",
        where="loader",
        severity="bug",
        evidence={
            "p on the training data": simple.p,
            "p on the validation data": simple.held_out,
            "score": simple.score,
            "chance": simple.chance,
            "samples": simple.size,
            "threshold": surely,
            "source": "permutation tests against shuffled labels",
        },
        remedies=REMEDIES,
        exhibit=Bars(("best baseline", "chance level"), (simple.score, simple.chance), "Score on training samples"),
    )


def _scores(simple: Baselines | None) -> str:
    if simple is None:
        return ""
    measure = "accuracy" if simple.kind == "classes" else "explained variance"
    return (
        f" (best baseline {measure} {simple.score:.2f}, chance {simple.chance:.2f}, p = {simple.p:.2g}, "
        f"{simple.size} samples)"
    )
