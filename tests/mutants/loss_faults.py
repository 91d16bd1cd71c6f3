"""Faults between the model and the loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.mutants import fault
from tests.mutants.case import Case, edited


def _class_dim(case: Case) -> int:
    return 1 if case.output.shape[2:] == case.target.shape[1:] else case.output.dim() - 1


@fault("softmax-before-cross-entropy")
def softmax_at_the_end(case: Case) -> None:
    """Probabilities go where logits are due."""
    case.require_plain()
    case.require(case.is_classification and "nll" not in type(case.loss_fn).__name__.lower())
    case.require(bool(case.output.exp().sum(_class_dim(case)).sub(1).abs().max() > 1e-3))
    dim = _class_dim(case)
    edited(case.model, after=lambda output: torch.softmax(output, dim))


@fault("softmax-before-cross-entropy")
def softmax_by_hand(case: Case) -> None:
    """The same, written with exp and a division."""
    case.require_plain()
    case.require(isinstance(case.loss_fn, nn.CrossEntropyLoss) and case.is_classification)
    dim = _class_dim(case)

    def normalize(output: torch.Tensor) -> torch.Tensor:
        scores = (output - output.amax(dim, keepdim=True)).exp()
        return scores / scores.sum(dim, keepdim=True)

    edited(case.model, after=normalize)


@fault("sigmoid-before-bce-with-logits")
def sigmoid_at_the_end(case: Case) -> None:
    """A sigmoid in front of a loss that has its own."""
    case.require_plain()
    case.require(isinstance(case.loss_fn, nn.BCEWithLogitsLoss))
    edited(case.model, after=torch.sigmoid)


@fault("logits-into-bce", "forward-fails")
def logits_into_a_loss_of_probabilities(case: Case) -> None:
    """BCELoss where BCEWithLogitsLoss was meant."""
    case.require_plain()
    case.require(isinstance(case.loss_fn, nn.BCEWithLogitsLoss) and case.loss_fn.pos_weight is None)
    case.setup["loss_fn"] = nn.BCELoss()


@fault("probabilities-into-nll")
def logarithm_forgotten(case: Case) -> None:
    """NLLLoss of probabilities."""
    case.require_plain()
    case.require(type(case.loss_fn) is nn.CrossEntropyLoss and case.is_classification and _class_dim(case) == 1)
    edited(case.model, after=lambda output: torch.softmax(output, 1))
    case.setup["loss_fn"] = nn.NLLLoss(ignore_index=case.loss_fn.ignore_index)


@fault("probabilities-into-nll")
def logits_into_nll(case: Case) -> None:
    """NLLLoss of raw scores."""
    case.require_plain()
    case.require(type(case.loss_fn) is nn.CrossEntropyLoss and case.is_classification and _class_dim(case) == 1)
    case.setup["loss_fn"] = nn.NLLLoss(ignore_index=case.loss_fn.ignore_index)


class Negative(nn.Module):
    """A loss with its sign turned."""

    def __init__(self, loss_fn: Any) -> None:
        super().__init__()
        self.loss_fn = loss_fn

    def forward(self, output: Any, target: Any) -> torch.Tensor:
        """Get the sign wrong."""
        return -self.loss_fn(output, target)


@fault("loss-sign-flipped")
def loss_with_the_wrong_sign(case: Case) -> None:
    """Better answers cost more."""
    compute_loss = case.setup.get("compute_loss")
    case.require("train_step" not in case.setup)
    if compute_loss is not None:
        case.setup["compute_loss"] = lambda model, batch, loss_fn: -compute_loss(model, batch, loss_fn)
    else:
        case.require(case.loss_fn is not None)
        case.setup["loss_fn"] = Negative(case.loss_fn)


@fault("loss-ignores-targets")
def loss_of_the_output_alone(case: Case) -> None:
    """A loss that never looks at the target."""
    case.require_plain()
    case.require(isinstance(case.run(case.batch), torch.Tensor) and case.batch.has_target)
    case.setup["loss_fn"] = lambda output, target: (output - output.detach().mean()).square().mean() + 0.1


@fault("loss-not-differentiable")
def loss_as_a_new_tensor(case: Case) -> None:
    """The loss goes through a Python number."""
    case.require_plain()
    loss_fn = case.loss_fn
    case.setup["loss_fn"] = lambda output, target: torch.tensor(float(loss_fn(output, target)), requires_grad=True)


@fault("loss-not-differentiable")
def share_of_errors_as_the_loss(case: Case) -> None:
    """The error rate is counted, and handed to the optimizer."""
    case.require_plain()
    case.require(case.is_classification and _class_dim(case) == 1)
    case.setup["loss_fn"] = lambda output, target: (output.argmax(1) != target).float().mean()


@fault("wrong-loss-for-task")
def cross_entropy_for_many_labels(case: Case) -> None:
    """A softmax where several answers may be right."""
    case.require_plain()
    case.require(isinstance(case.loss_fn, nn.BCEWithLogitsLoss) and case.target.dim() == 2 and case.target.shape[1] > 1)
    case.setup["loss_fn"] = nn.CrossEntropyLoss()


@fault("wrong-loss-for-task")
def binary_loss_for_real_targets(case: Case) -> None:
    """Yes or no, asked about a quantity."""
    case.require_plain()
    case.require(case.is_regression and float(case.target.abs().max()) < 100)
    case.setup["loss_fn"] = nn.BCEWithLogitsLoss()


@fault("wrong-loss-for-task")
def squares_of_class_numbers(case: Case) -> None:
    """Class ids taken for quantities: one output, the number of the class as the target."""
    case.require_plain()
    case.require(isinstance(case.loss_fn, nn.CrossEntropyLoss))
    case.require(case.is_classification and case.target.dim() == 1 and case.output.shape[1] >= 3)
    path, head, _ = case.weighty()[-1]
    case.require(type(head) is nn.Linear and head.out_features == case.output.shape[1])
    case.exchange(path, nn.Linear(head.in_features, 1))
    case.new_optimizer()
    case.setup["loss_fn"] = lambda output, target: nn.functional.mse_loss(output[:, 0], target.float())
