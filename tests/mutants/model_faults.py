"""Faults of the model: its layers, how they are joined, and how they begin."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from tests.mutants import fault
from tests.mutants.case import ACTIVATIONS, NORMS, Case, edited


@fault("clamped-output", "dead-units")
def relu_at_the_end(case: Case) -> None:
    """The last layer got an activation like all the others."""
    case.require_plain()
    case.require(isinstance(case.loss_fn, (nn.CrossEntropyLoss, nn.MSELoss, nn.HuberLoss)))
    case.require(isinstance(case.run(case.batch), torch.Tensor) and bool((case.output < 0).any()))
    edited(case.model, after=torch.relu)


@fault("clamped-output", "wrong-loss-for-task")
def sigmoid_in_front_of_real_targets(case: Case) -> None:
    """Outputs between 0 and 1 for targets that are not."""
    case.require_plain()
    case.require(case.is_regression and bool((case.target < 0).any()))
    edited(case.model, after=torch.sigmoid)


@fault("softmax-over-wrong-dim", "batch-mixing", "softmax-before-cross-entropy")
def softmax_over_the_batch(case: Case) -> None:
    """The softmax is taken over the samples."""
    case.require_plain()
    case.require(isinstance(case.loss_fn, nn.CrossEntropyLoss) and case.is_classification and case.batch.size > 1)
    edited(case.model, after=lambda output: torch.softmax(output, 0))


@fault("batch-mixing", "reshape-mixes-axes")
def view_instead_of_transpose(case: Case) -> str:
    """The samples of a batch are dealt out anew."""
    path, layer, received = case.hidden()
    case.require(received.dim() == 2)
    edited(layer, before=lambda x: x.t().reshape(x.shape))
    return path


@fault("batch-mixing")
def centered_over_the_batch(case: Case) -> str:
    """A normalization by hand over dimension 0."""
    path, layer, _ = case.hidden()
    edited(layer, before=lambda x: x - x.mean(0))
    return path


def _cut(case: Case, how: Any) -> tuple[str, ...]:
    """Cut the graph in front of a hidden layer; the module on either side or what is cut off may be named."""
    path, layer, _ = case.hidden()
    calls = [found[0] for found in case.called(nn.Module) if not list(found[1].children())]
    cut_off = calls[: calls.index(path)]
    edited(layer, before=how)
    named = {
        name for name, p in case.model.named_parameters() if p.requires_grad and name.rpartition(".")[0] in cut_off
    }
    return (path, *cut_off, *named)


@fault("untrained-parameters")
def detached_in_the_middle(case: Case) -> tuple[str, ...]:
    """A detach in front of a hidden layer."""
    return _cut(case, lambda x: x.detach())


@fault("untrained-parameters")
def through_numpy_and_back(case: Case) -> tuple[str, ...]:
    """A round trip through NumPy in front of a hidden layer."""
    return _cut(case, lambda x: torch.from_numpy(x.detach().float().numpy()).to(x.dtype))


@fault("frozen-parameters")
def frozen_in_the_middle(case: Case) -> tuple[str, ...]:
    """One layer in the middle was left frozen."""
    layers = case.weighty()
    case.require(len(layers) >= 3 and all(p.requires_grad for p in case.model.parameters()))
    path, layer, _ = layers[len(layers) // 2]
    layer.requires_grad_(False)
    return (path, f"{path}.weight", f"{path}.bias")


@fault("parameters-missing-from-optimizer")
def optimizer_of_another_model(case: Case) -> None:
    """The model was made anew after the optimizer."""
    case.require(all(p.requires_grad for p in case.model.parameters()))
    case.new_optimizer(copy.deepcopy(case.model).parameters())


@fault("parameters-missing-from-optimizer")
def only_biases_in_the_optimizer(case: Case) -> None:
    """A filter over names that kept the wrong half."""
    case.require(all(p.requires_grad for p in case.model.parameters()))
    case.new_optimizer([p for name, p in case.model.named_parameters() if "bias" in name])


@fault("parameters-missing-from-optimizer")
def head_not_in_the_optimizer(case: Case) -> tuple[str, ...]:
    """The new last layer was not handed to the optimizer."""
    case.require(all(p.requires_grad for p in case.model.parameters()))
    layers = case.weighty()
    case.require(len(layers) >= 2)
    path, head, _ = layers[-1]
    mine = {id(p) for p in head.parameters()}
    case.new_optimizer([p for p in case.model.parameters() if id(p) not in mine])
    return (path, f"{path}.weight", f"{path}.bias")


class PlainList(nn.Module):
    """Layers in a Python list, which no optimizer will ever see."""

    def __init__(self, layers: list[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.layers, self.head = layers, head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go through the list."""
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@fault("unregistered-parameters", "parameters-missing-from-optimizer")
def layers_in_a_plain_list(case: Case) -> tuple[str, ...]:
    """Layers that are not registered."""
    case.require(type(case.model) is nn.Sequential and not any(isinstance(m, NORMS) for m in case.model.modules()))
    *layers, head = case.model.children()
    case.require(sum(bool(list(layer.parameters())) for layer in layers) > 0 and bool(list(head.parameters())))
    case.model = case.setup["model"] = PlainList(layers, head)
    case.new_optimizer()
    return ("layers", *(f"layers[{i}]" for i in range(len(layers))), *(f"layers.{i}" for i in range(len(layers))))


def _weights(case: Case, least: int = 2) -> list[nn.Parameter]:
    layers = case.weighty()
    case.require(len(layers) >= least)
    return [layer.weight for _, layer, _ in layers]


@fault("symmetric-initialization", "outputs-identical")
def all_weights_zero(case: Case) -> None:
    """Everything begins at zero."""
    _weights(case)
    with torch.no_grad():
        for parameter in case.model.parameters():
            parameter.zero_()


@fault("symmetric-initialization", "initialization-off-scale")
def all_weights_alike(case: Case) -> None:
    """Every weight begins at the same number."""
    for weight in _weights(case):
        nn.init.constant_(weight, 0.05)


@fault("initialization-off-scale", "activations-off-scale", "exploding-gradients", "saturated-units")
def weights_times_100(case: Case) -> None:
    """Weights drawn with the wrong spread."""
    weights = _weights(case)
    case.require(not any(isinstance(m, NORMS) for m in case.model.modules()))
    with torch.no_grad():
        for weight in weights:
            weight.mul_(100)


@fault("initialization-off-scale", "vanishing-gradients", "activations-off-scale")
def weights_divided_by_1000(case: Case) -> None:
    """Weights so small that nothing passes."""
    weights = _weights(case, least=3)
    case.require(not any(isinstance(m, (*NORMS, nn.ModuleList)) for m in case.model.modules()))  # one behind another
    with torch.no_grad():
        for weight in weights:
            weight.mul_(1e-3)


def _activation(case: Case, *kinds: type[nn.Module]) -> tuple[str, nn.Module]:
    found = case.called(*kinds)
    case.require(bool(found))
    path, module, _ = found[0]
    return path, module


@fault("excessive-dropout")
def dropout_of_nineteen_in_twenty(case: Case) -> tuple[str, ...]:
    """The share to keep was taken for the share to drop."""
    path, module = _activation(case, *ACTIVATIONS)
    known = [(name, m) for name, m in case.model.named_modules() if type(m) is nn.Dropout]
    if known:
        known[0][1].p = 0.95
        return (known[0][0],)
    case.exchange(path, nn.Sequential(module, nn.Dropout(0.95)))
    return (path, f"{path}.1")


@fault("missing-nonlinearity")
def activations_removed(case: Case) -> None:
    """Linear layers with nothing between them."""
    case.require(len(case.weighty()) >= 2)
    paths = [path for path, module in case.model.named_modules() if isinstance(module, ACTIVATIONS)]
    last = [path for path, _, _ in case.called(nn.Module)]
    case.require(bool(paths) and type(case.model) is nn.Sequential)
    for path in paths:
        if path != last[-1]:
            case.exchange(path, nn.Identity())
    others = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Identity, nn.Flatten, nn.Sequential, nn.Dropout, nn.LogSoftmax)
    case.require(all(isinstance(m, others) for m in case.model.modules()))


def _before(case: Case, activation: str) -> tuple[str, nn.Module]:
    """Return the layer whose output the activation receives."""
    calls = [found for found in case.called(nn.Module) if not list(found[1].children())]
    index = [path for path, _, _ in calls].index(activation)
    case.require(index > 0 and isinstance(calls[index - 1][1], nn.Linear) and hasattr(calls[index - 1][1], "bias"))
    return calls[index - 1][0], calls[index - 1][1]


@fault("dead-units", "outputs-identical")
def relu_that_never_fires(case: Case) -> tuple[str, ...]:
    """A bias far below zero in front of a ReLU."""
    path, _ = _activation(case, nn.ReLU)
    place, layer = _before(case, path)
    case.require(layer.weight.requires_grad)
    nn.init.constant_(layer.bias, -100)
    return (path, place)


@fault("saturated-units", "initialization-off-scale")
def saturated_from_the_start(case: Case) -> tuple[str, ...]:
    """Weights so large that tanh or sigmoid stand at their ends."""
    path, _ = _activation(case, nn.Tanh, nn.Sigmoid)
    place, layer = _before(case, path)
    case.require(path != case.called(nn.Module)[-1][0])
    with torch.no_grad():
        layer.weight.mul_(100)
    return (path, place, f"{place}.weight")


@fault("forward-fails")
def wrong_width(case: Case) -> str:
    """A layer that expects another number of features."""
    path, layer, _ = case.hidden()
    case.require(type(layer) is nn.Linear)
    case.exchange(path, nn.Linear(layer.in_features + 3, layer.out_features))
    case.new_optimizer()
    return path


@fault("forward-fails", "invalid-labels")
def too_few_classes(case: Case) -> None:
    """The head has one class less than the labels."""
    case.require(case.is_classification and case.target.dim() == 1)
    path, head, _ = case.weighty()[-1]
    case.require(type(head) is nn.Linear and head.out_features == case.output.shape[1])
    case.exchange(path, nn.Linear(head.in_features, head.out_features - 1))
    case.new_optimizer()


class OneUnit(nn.Module):
    """Everything has to pass through one unit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, 1), nn.Linear(1, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Squeeze, and widen."""
        return self.up(self.down(x))


@fault("bottleneck-too-narrow")
def one_unit_in_the_middle(case: Case) -> tuple[str, ...]:
    """A layer too narrow to carry the answer."""
    case.require(case.is_classification and case.target.dim() == 1 and case.output.shape[1] >= 5)
    path, layer, received = case.hidden()
    case.require(type(layer) is nn.Linear and received.dim() == 2)
    case.exchange(path, nn.Sequential(OneUnit(layer.in_features), nn.ReLU(), layer))
    case.new_optimizer()
    return (path, f"{path}.0", f"{path}.0.down", f"{path}.0.up")
