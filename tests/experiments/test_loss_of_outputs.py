"""Made-up outputs reach the loss also where the model computes it: the sound are clean, the broken are found."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nbdebug
from tests.zoo import own_losses
from tests.zoo.own_losses import own_step, second_of_the_tuple
from tests.zoo.samples import cancer, digit_rows, setup, split

SOUND = (
    own_losses.nano_gpt, own_losses.nano_gpt_in_a_step, own_losses.tied_gpt, own_losses.labeled_gpt,
    own_losses.own_loss_and_a_term, own_losses.loss_in_an_attribute, own_losses.losses_of_rows,
)  # fmt: skip
OF_THE_LOSS = (
    "wrong-loss-for-task", "loss-not-differentiable", "softmax-before-cross-entropy", "softmax-over-wrong-dim",
    "loss-ignores-targets", "loss-sign-flipped", "initial-loss-off", "incompatible-target-shape", "invalid-labels",
)  # fmt: skip


def judged(**parts: Any) -> nbdebug.Report:
    """Run the checks that ask the loss about made-up outputs."""
    report = nbdebug.diagnose(**parts, checks=OF_THE_LOSS, progress=False)
    assert not [result for result in report.results if result.status == "crashed"], report.results
    return report


@pytest.mark.parametrize("make", SOUND, ids=lambda make: make.__name__)
def test_a_loss_inside_of_the_model_raises_no_alarm(make: Any) -> None:
    torch.manual_seed(0)
    report = judged(**make())
    assert not report.alarms, [str(finding) for finding in report.alarms]


def test_logits_inside_of_the_model_are_judged() -> None:
    """The loss is asked through the layer that gives the logits, so that the check says something."""
    assert judged(**own_losses.labeled_gpt()).result("wrong-loss-for-task").status == "clean"


class Net(nn.Module):
    """A classifier that computes its loss from the scores in the way that it is given."""

    def __init__(self, loss: Any, outputs: int = 10, inputs: int = 64) -> None:
        super().__init__()
        self.body, self.head, self.how = nn.Linear(inputs, 32), nn.Linear(32, outputs), loss

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the scores and the loss."""
        scores = self.head(self.body(x).relu())
        return scores, self.how(scores, y) if y is not None else None


def found(model: nn.Module, data: Any, **more: Any) -> list[str]:
    """Name the checks that alarm on a model with its own loss."""
    return [f.check for f in judged(**setup(model, data, compute_loss=second_of_the_tuple, **more)).alarms]


def test_cross_entropy_of_one_score_inside_of_the_model_is_found() -> None:
    rows, label = cancer()
    model = Net(lambda scores, y: F.cross_entropy(scores, y.flatten().long() * 0), 1, 30)
    assert "wrong-loss-for-task" in found(model, split(rows, label))


@pytest.mark.parametrize("step", [None, own_step], ids=["compute_loss", "train_step"])
def test_softmax_before_the_loss_inside_of_the_model_is_found(step: Any) -> None:
    def twice(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(scores.softmax(1), y)

    more = {"train_step": step} if step is not None else {}
    assert "softmax-before-cross-entropy" in found(Net(twice), split(*digit_rows()), **more)


def test_a_sign_flipped_inside_of_the_model_is_found() -> None:
    assert "loss-sign-flipped" in found(Net(lambda scores, y: -F.cross_entropy(scores, y)), split(*digit_rows()))


def test_a_loss_that_never_sees_the_outputs_is_still_found() -> None:
    """A penalty on the weights alone has a gradient, but not from anything that the model computes."""

    def penalty(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        model(batch[0])
        return torch.stack([p.square().sum() for p in model.parameters()]).sum()

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    report = judged(**setup(model, split(*digit_rows()), compute_loss=penalty))
    assert "wrong-loss-for-task" in [f.check for f in report.alarms]


def test_a_loss_read_by_loss_fn_is_known_to_be_the_models_own() -> None:
    parts = own_losses.labeled_gpt() | {"compute_loss": None, "loss_fn": lambda output, _: output.loss}
    assert not judged(**parts).alarms


def test_dropout_does_not_hide_the_layer_of_the_logits() -> None:
    """Two runs in training mode give different logits; the layer is recognized within one."""
    model = Net(F.cross_entropy)
    model.body = nn.Sequential(nn.Linear(64, 32), nn.Dropout(0.3))  # type: ignore[assignment]
    report = judged(**setup(model, split(*digit_rows()), compute_loss=second_of_the_tuple))
    assert report.result("wrong-loss-for-task").status == "clean" and not report.alarms


def test_a_model_of_transformers_raises_no_alarm() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=12, n_positions=16, n_embd=32, n_layer=1, n_head=2)
    parts = setup(
        transformers.GPT2LMHeadModel(config), own_losses.same_labels(), compute_loss=own_losses.attribute, lr=3e-3
    )
    assert not judged(**parts).alarms
