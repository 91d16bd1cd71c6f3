"""How hard the loss pulls at samples of each class, for identical predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from nbdebug.core.registry import probe
from nbdebug.errors import Cancelled, NbdebugError, OutOfTime
from nbdebug.evidence.loader_sweep import LoaderSweep
from nbdebug.experiments.loss_of_outputs import LossBox, open_box
from nbdebug.experiments.task import class_dim, scale_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["ClassWeighting", "class_weighting"]


@dataclass(frozen=True)
class ClassWeighting:
    """How hard the loss pulls at samples of different classes that are predicted equally well.

    `pulls` maps a class to the size of the gradient at its output. `discount` is how much less an easy sample pulls
    than under cross-entropy (1 means as much, 0 not at all), None where that was not tried. `is_scored` says that each
    class has an output of its own, so that equal outputs favor none of them.
    """

    pulls: dict[int, float] = field(default_factory=dict)
    discount: float | None = None
    reason: str = ""
    is_scored: bool = False


CLASSES = 8  # the rarest and the commonest of more
UNEVEN = 0.5  # of the largest pull: then it is measured on every sample
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
    plain, box = box, replace(box, batch=_answered(batch, target, given))
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
    if min(pulls.values()) < UNEVEN * max(pulls.values()):
        pulls = _on_every_sample(plain, path, even, target, given, pulls)
    easy = _discount(box, path, output, given, size) if dim == 1 and scale == "logits" else None
    return ClassWeighting(pulls, easy, is_scored=dim is not None)


def _on_every_sample(
    box: LossBox, path: object, even: torch.Tensor, target: torch.Tensor, given: torch.Tensor, pulls: dict[int, float]
) -> dict[int, float]:
    """Give each class to each sample in turn: a loss may weigh samples, such as those whose label is known."""
    sums = dict.fromkeys(pulls, 0.0)
    for turn in range(len(pulls)):
        turned = given.roll(turn)
        _, gradient = replace(box, batch=_answered(box.batch, target, turned)).gradient(path, even)  # type: ignore[arg-type]
        if gradient is None:
            return pulls
        size = gradient.flatten(1).norm(dim=1)
        for label in sums:
            sums[label] += float(size[turned == label].mean())
    return {label: total / len(pulls) for label, total in sums.items()}


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
