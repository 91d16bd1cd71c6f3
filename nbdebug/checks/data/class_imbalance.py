"""Rare classes without compensation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np
import torch

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import Cancelled, NbdebugError, NotApplicable, OutOfTime
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.experiments.loss_of_outputs import LossBox, open_box
from nbdebug.experiments.task import class_dim, scale_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["ClassWeighting", "class_imbalance", "class_weighting"]


@dataclass(frozen=True)
class ClassWeighting:
    """How hard the loss pulls at samples of different classes that are predicted equally well.

    `pulls` maps a class to the size of the gradient at its output. `discount` is how much less an easy sample pulls
    than under cross-entropy (1 means as much, 0 not at all), None where that was not tried.
    """

    pulls: dict[int, float] = field(default_factory=dict)
    discount: float | None = None
    reason: str = ""


CLASSES = 8  # the rarest and the commonest of more
SURE = 0.7  # label smoothing still pulls there


@probe
def class_weighting(sandbox: Sandbox, sweep: LoaderSweep) -> ClassWeighting:
    """Compare the gradients of the classes for identical outputs."""
    labels = sweep.class_labels()
    if len(labels) != 1 or len(sweep.targets) != 1:
        return ClassWeighting(reason="there is not one class per sample")
    try:
        return _weigh(sandbox, next(iter(labels.values())))
    except (Cancelled, OutOfTime):
        raise
    except NbdebugError as why:
        return ClassWeighting(reason=str(why).splitlines()[0])
    except Exception as error:
        return ClassWeighting(reason=f"the loss raised {type(error).__name__}: {error}")


def _weigh(sandbox: Sandbox, labels: np.ndarray) -> ClassWeighting:
    values, counts = np.unique(labels[labels >= 0], return_counts=True)
    by_count = values[np.argsort(counts)]
    chosen = list(dict.fromkeys([*by_count[: CLASSES // 2].tolist(), *by_count[-CLASSES // 2 :].tolist()]))
    batch = sandbox.batch().head(max(2 * len(chosen), 2))
    with sandbox.mode(training=False):
        box = open_box(sandbox, batch)
    if len(box.heads) != 1 or len(batch.targets) != 1:
        return ClassWeighting(reason="the model has more than one output, or the batch more than one target")
    (path, output), target = next(iter(box.heads.items())), next(iter(batch.targets.values()))
    given = torch.tensor([chosen[i % len(chosen)] for i in range(batch.size)], device=target.device)
    box = replace(box, batch=_answered(batch, target, given))
    dim = class_dim(output, target) if output.dim() > 1 and output.shape[1] > 1 else None
    scale = scale_of(output, dim)
    even = torch.full_like(output, 1 / output.shape[1] if scale == "probabilities" and dim is not None else 0.0)
    if dim is None and bool(((output >= 0) & (output <= 1)).all()):
        even = torch.full_like(output, 0.5)
    _, gradient = box.gradient(path, even)
    if gradient is None:
        return ClassWeighting(reason="the loss has no gradient for a uniform prediction")
    size = gradient.flatten(1).norm(dim=1)
    pulls = {int(c): float(size[given == c].mean()) for c in chosen if bool((given == c).any())}
    easy = _discount(box, path, output, given, size) if dim == 1 and scale == "logits" else None
    return ClassWeighting(pulls, easy)


def _answered(batch: Batch, target: torch.Tensor, given: torch.Tensor) -> Batch:
    """Return a batch whose samples have these classes, in the form of the targets."""
    if target.dim() == 2 and target.shape[1] > 1:
        new = torch.nn.functional.one_hot(given, target.shape[1]).to(target.dtype)
    else:
        new = given.to(target.dtype).reshape(target.shape)
    return batch.map_targets(lambda _, __: new)


def _discount(
    box: LossBox, path: object, output: torch.Tensor, given: torch.Tensor, even: torch.Tensor
) -> float | None:
    """Return how hard a sample that is already right pulls, relative to what cross-entropy would do."""
    classes = output.shape[1]
    if output.dim() != 2 or int(given.max()) >= classes:
        return None
    sure = torch.zeros_like(output)
    sure[torch.arange(len(given)), given] = math.log(SURE / (1 - SURE) * (classes - 1))
    _, gradient = box.gradient(path, sure)  # type: ignore[arg-type]
    if gradient is None or float(even.mean()) == 0:
        return None
    flat = math.sqrt((1 - 1 / classes) ** 2 + (classes - 1) / classes**2)
    expected = (1 - SURE) * math.sqrt(1 + 1 / (classes - 1)) / flat
    return float(gradient.flatten(1).norm(dim=1).mean() / even.mean()) / expected


REMEDIES = (
    Remedy(
        "Weight the loss by inverse class frequency.",
        "nn.CrossEntropyLoss(weight=len(y) / (classes * torch.bincount(y)))",
        Patch("weigh-classes"),
    ),
    Remedy("Oversample rare classes.", "WeightedRandomSampler(1 / torch.bincount(y)[y], len(y))"),
)


@check(explains=("loss-metric-disagree",), basis="statistic")
def class_imbalance(
    sweep: LoaderSweep,
    weighting: ClassWeighting | None,
    *,
    ratio: float = 10.0,  # SageMaker Debugger: ClassImbalance
    alpha: float = 0.01,  # probability of a false alarm, over all classes; our choice
    weighted: float = 1.5,  # ratio of gradients above which the loss favors the rare class; our choice
    eased: float = 0.5,  # relative gradient of an easy sample, below which the loss counts as a focal loss; our choice
    least: int = 50,  # samples; our choice
) -> Iterator[Finding]:
    """Some classes are far rarer than others, and neither the loss nor the sampler compensates.

    Classes are counted in the batches that the loader yields, so a balancing sampler is taken into account. To see
    whether the loss weights classes, nbdebug gives it the same prediction for samples of every class and compares the
    gradients; a loss that down-weights easy samples (focal loss) counts as well.

    Why it matters: a model that always predicts the majority class has a low loss and a high accuracy, and training
    stays there.

    What to try: weight the loss by inverse class frequency, or oversample rare classes; evaluate with a metric that
    treats classes equally, such as balanced accuracy or the F1 score.
    """
    sweep.require(least)
    known = sweep.class_labels()
    if not known:
        raise NotApplicable("the targets are not one class per sample")
    for name, labels in known.items():
        values, counts = np.unique(labels[labels >= 0], return_counts=True)
        if len(values) < 2:
            continue
        least, most = int(counts.min()), int(counts.max())
        tests = 1 if sweep.way == "all" else len(values)  # in a subset one of many classes is rare by chance
        margin = NormalDist().inv_cdf(1 - alpha / tests) * math.sqrt(1 / least + 1 / most)
        lower_bound = most / least * math.exp(-margin)
        rare, common = int(values[counts.argmin()]), int(values[counts.argmax()])
        compensated = _compensates(weighting, rare, common, weighted, eased)
        if lower_bound > ratio and compensated is not True:
            reason = weighting.reason if weighting is not None else "not tested"
            unknown = f"; whether the loss compensates is unknown ({reason})."
            tail = unknown if compensated is None else ", and the loss does not compensate."
            yield Finding(
                f"Class {common} is {most / least:.0f} times as frequent as class {rare} ({most} vs. {least} of "
                f"{len(labels)} samples){tail}",
                where=name,
                severity="note" if compensated is None else "suspect",
                evidence={
                    "ratio": most / least,
                    "ratio, lower bound": lower_bound,
                    "samples": len(labels),
                    "pull at the classes": weighting.pulls if weighting is not None else {},
                    "threshold": ratio,
                    "source": "SageMaker Debugger; 37 reasons, 8",
                },
                remedies=REMEDIES,
                exhibit=Bars(tuple(map(str, values[:50])), tuple(map(float, counts[:50])), title="Samples per class"),
            )


def _compensates(
    weighting: ClassWeighting | None, rare: int, common: int, weighted: float, eased: float
) -> bool | None:
    """Return whether the loss compensates; None where that is unknown."""
    if weighting is None or rare not in weighting.pulls or common not in weighting.pulls:
        return None
    if weighting.discount is not None and weighting.discount < eased:
        return True
    gradient = weighting.pulls[common]
    return weighting.pulls[rare] > weighted * gradient if gradient > 0 else True
