"""Losses that want something else than the task."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import nbdebug
from nbdebug.checks.optimization.loss_metric_disagree import loss_metric_disagree
from nbdebug.evidence.short_run import ShortRun
from nbdebug.experiments.learning_curve import Fit
from tests import loops
from tests.examples import failing_example
from tests.zoo.small_and_noisy import shift_in_the_loss, shifted_loss
from tests.zoo.tabular import digits


def trained(loss_fn: Any) -> dict[str, Any]:
    """Return a model that already answers well, handed on with another loss."""
    made = loops.setup(None, 3e-3)
    for _ in range(3):
        for batch in made["loader"]:
            loops.right(made["model"], batch, made["loss_fn"], made["optimizer"])
    optimizer = torch.optim.Adam(made["model"].parameters(), lr=1e-2)
    return {"model": made["model"], "loader": digits(), "loss_fn": loss_fn, "optimizer": optimizer}


@failing_example("loss-metric-disagree", where="loss_fn")
def pushed_away_from_the_answer() -> dict[str, Any]:
    """The loss rewards the right class for being unlikely."""

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return output.softmax(1).gather(1, target[:, None]).mean()

    return trained(loss_fn)


@failing_example("loss-metric-disagree", where="loss_fn")
def labels_shifted_in_the_loss() -> dict[str, Any]:
    """The loss compares with the label of another class."""
    cross = nn.CrossEntropyLoss()
    return trained(lambda output, target: cross(output, (target + 1) % 10))
    # fixed: return trained(lambda output, target: cross(output, target))


def test_a_usual_loss_agrees() -> None:
    """Cross-entropy and accuracy go together."""
    report = nbdebug.diagnose(**loops.setup(None, 3e-3), checks=["loss-metric-disagree"], progress=False)
    assert report.results[0].status == "clean"


def causal(loss_fn: Any, epochs: int) -> Any:
    """Diagnose a causal language model whose targets are its inputs, after some epochs with the right loss."""
    torch.manual_seed(0)
    made = shift_in_the_loss()
    for _ in range(epochs):
        for batch in made["loader"]:
            loops.right(made["model"], batch, shifted_loss, made["optimizer"])
    check = "loss-metric-disagree"
    return nbdebug.diagnose(**made | {"loss_fn": loss_fn}, checks=[check], progress=False).result(check)


def test_the_accuracy_of_a_causal_model_is_taken_with_the_shift_of_its_loss() -> None:
    """A tied head begins with a copy of its input, which is right for the same place and wrong for the next."""
    assert causal(shifted_loss, 0).status == "clean"


def test_a_causal_model_that_is_pushed_away_from_the_next_token_is_found() -> None:
    def unlikely(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None]).mean()

    assert [finding.severity for finding in causal(unlikely, 4).findings] == ["suspect"]


def test_two_samples_tell_nothing_about_the_accuracy() -> None:
    """The loss falls over all batches while one of two samples turns wrong."""
    before, after = Fit("accuracy", 1.0, 0.9), Fit("accuracy", 0.5, 0.9)

    def found(fitted: int) -> int:
        run = ShortRun((0.4,) * 60, 8, before, after, 0.4, 0.1, False, 0.0, 0.0, 0, fitted=fitted)
        return len(list(loss_metric_disagree(run)))

    assert found(2) == 0 and found(64) == 1
