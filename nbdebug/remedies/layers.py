"""Patches of single layers and operations inside a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.remedies import patch
from nbdebug.remedies.calls import Call, Change, rewrite_calls
from nbdebug.remedies.optimizing import add_to_optimizer
from nbdebug.remedies.places import called_layers, module_at
from nbdebug.remedies.weights import reinitialise
from nbdebug.twin import Twin

__all__: list[str] = []

DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"}
DRAWS = {"rand", "rand_like", "randn", "randn_like", "normal", "uniform", "bernoulli"}


@patch()
def leaky_activations(twin: Twin, *, slope: float = 0.01) -> None:
    """Let every ReLU pass a little of what is negative."""

    def change(call: Call) -> Any:
        if call.name != "relu" or not isinstance(call.subject, torch.Tensor):
            return call.go_on()
        return torch.where(call.subject > 0, call.subject, slope * call.subject)

    rewrite_calls(twin, lambda: change)


@patch()
def relu_activations(twin: Twin) -> None:
    """Put a ReLU in the place of every activation with flat ends, and draw the weights for it."""
    reinitialise(twin, gain="relu")

    def change(call: Call) -> Any:
        return call.subject.clamp_min(0) if call.name in ("tanh", "sigmoid") else call.go_on()

    rewrite_calls(twin, lambda: change)


@patch()
def limit_dropout(twin: Twin, *, share: float = 0.3) -> None:
    """Let no dropout drop more than this share."""

    def change(call: Call) -> Any:
        dropped = call.option("p", 1) if call.name in DROPOUTS else None
        return call.with_option("p", 1, share) if dropped is not None and dropped > share else call.go_on()

    rewrite_calls(twin, lambda: change)


@patch("check")
def no_chance_in_eval(twin: Twin) -> None:
    """Let dropout do nothing, and noise be nothing, while the model is in eval mode."""

    def make_change() -> Change:
        return _without_chance if not twin.model.training else lambda call: call.go_on()

    rewrite_calls(twin, make_change)


def _without_chance(call: Call) -> Any:
    if call.name in DROPOUTS:
        return call.subject
    if call.name in ("randn", "randn_like", "normal"):
        return torch.zeros_like(call.go_on())
    return call.go_on()


@patch("check")
def activation_between(twin: Twin, *, layers: Sequence[str]) -> None:
    """Put a ReLU behind each of these layers."""
    for path in layers:
        module_at(twin, path).register_forward_hook(lambda module, args, output: output.relu())


@patch("check")
def norm_momentum(twin: Twin, *, momentum: float = 0.1) -> None:
    """Let the statistics of batch normalisation move by a tenth a batch, in training mode."""
    norms = [m for m in twin.model.modules() if isinstance(m, nn.modules.batchnorm._NormBase)]
    if not norms:
        raise NotApplicable("there is no batch normalisation of torch's own")
    for norm in norms:
        norm.momentum = momentum


@patch()
def group_norm(twin: Twin) -> None:
    """Put a normalisation within each sample in the place of every batch normalisation."""
    done = 0
    for parent in list(twin.model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.modules.batchnorm._BatchNorm):
                setattr(parent, name, _as_group_norm(child))
                done += 1
    if not done:
        raise NotApplicable("there is no batch normalisation of torch's own")


def _as_group_norm(norm: Any) -> nn.Module:
    groups = next(g for g in (8, 4, 2, 1) if norm.num_features % g == 0)
    made = nn.GroupNorm(groups, norm.num_features, norm.eps, norm.affine)
    if norm.affine:
        made.weight, made.bias = norm.weight, norm.bias  # the optimizer holds them
    return made.train(norm.training)


@patch()
def keep_graph(twin: Twin) -> None:
    """Let `detach` and `.data` inside of the forward cut nothing."""

    def change(call: Call) -> Any:
        cuts = call.name == "detach" or getattr(call.function, "__self__", None) is torch.Tensor.data
        return call.subject if cuts else call.go_on()

    rewrite_calls(twin, lambda: change)


@patch("check")
def samples_first(twin: Twin) -> None:
    """Tell recurrent and attention layers that the samples come first."""
    told: list[Any] = [m for m in twin.model.modules() if getattr(m, "batch_first", True) is False]
    if not told:
        raise NotApplicable("there is no layer of torch's own that expects time first")
    for module in told:
        module.batch_first = True


@patch()
def guard_operation(twin: Twin, *, operation: str, least: float = 1e-8) -> None:
    """Keep the argument of a logarithm, a root or a division away from zero."""

    def change(call: Call) -> Any:
        if call.name != operation or not isinstance(call.subject, torch.Tensor):
            return call.go_on()
        if operation in ("div", "true_divide", "truediv"):
            return call.go_on(call.subject, call.args[1] + least)
        return call.go_on(call.subject.clamp_min(least), *call.args[1:])

    rewrite_calls(twin, lambda: change)


@patch()
def uncorrected_spread(twin: Twin) -> None:
    """Ask for every spread and variance without the correction that divides by the count less one."""

    def change(call: Call) -> Any:
        return (
            call.go_on(correction=0) if call.name in ("std", "var") and "unbiased" not in call.kwargs else call.go_on()
        )

    rewrite_calls(twin, lambda: change)


@patch("answers")
def softmax_dimension(twin: Twin, *, wrong: int, right: int) -> None:
    """Take every softmax that goes over the wrong dimension over the right one."""

    def change(call: Call) -> Any:
        dim = call.option("dim", 1) if call.name in ("softmax", "log_softmax") else None
        if not isinstance(dim, int) or not isinstance(call.subject, torch.Tensor):
            return call.go_on()
        return call.with_option("dim", 1, right) if dim % call.subject.dim() == wrong else call.go_on()

    rewrite_calls(twin, lambda: change)


@patch()
def register_hidden(twin: Twin) -> None:
    """Register layers and tensors that the model uses but does not list, and let the optimizer train them."""
    add_to_optimizer(twin, _all_registered(twin))


@patch("check")
def hold_hidden_layers(twin: Twin) -> None:
    """Register layers that stand in plain lists, so that `eval()` reaches them."""
    training = twin.model.training
    _all_registered(twin)
    twin.model.train(training)


def _all_registered(twin: Twin) -> list[nn.Parameter]:
    found: list[nn.Parameter] = []
    before = sum(1 for _ in twin.model.modules())
    for module in list(twin.model.modules()):
        for name, value in list(vars(module).items()):
            if not name.startswith("_"):
                found += _registered(module, name, value)
    if not found and before == sum(1 for _ in twin.model.modules()):
        raise NotApplicable("nothing that is hidden in plain attributes could be found in the copy")
    return found


@patch()
def normalise_between(twin: Twin) -> None:
    """Put a normalisation without parameters behind every hidden layer with weights."""

    def normalised(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        dims = (1,) if output.dim() == 2 else tuple(range(1, output.dim()))
        return (output - output.mean(dims, keepdim=True)) / (output.std(dims, keepdim=True, correction=0) + 1e-5)

    for _, layer in _hidden(twin):
        layer.register_forward_hook(normalised)


@patch()
def shortcuts(twin: Twin) -> None:
    """Add what goes into a layer to what comes out of it, where both have one shape."""
    for _, layer in _hidden(twin):
        layer.register_forward_hook(_added)


def _added(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    same = bool(args) and isinstance(args[0], torch.Tensor) and args[0].shape == output.shape
    return output + args[0] if same else output


def _hidden(twin: Twin) -> list[tuple[str, nn.Module]]:
    """Give the layers with weights but the last, in the order of their calls."""
    kinds = (nn.Linear, nn.modules.conv._ConvNd)
    weighty: list[tuple[str, nn.Module]] = list(
        dict.fromkeys((path, m) for path, m in called_layers(twin) if isinstance(m, kinds))
    )
    if len(weighty) < 2:
        raise NotApplicable("there are no hidden layers of torch's own")
    return weighty[:-1]


def _registered(owner: nn.Module, name: str, value: Any) -> list[nn.Parameter]:
    """Register layers in plain containers, and tensors that ask for a gradient, in the place where they stand."""
    if isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf:
        owner.__dict__.pop(name, None)
        owner.register_parameter(name, value if isinstance(value, nn.Parameter) else nn.Parameter(value.detach()))
        return [owner._parameters[name]]  # type: ignore[list-item]
    items: list[Any] = (
        list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, (list, tuple)) else []
    )
    layers = [item for item in items if isinstance(item, nn.Module)]
    parts = [item for item in items if isinstance(item, (list, tuple, dict))]
    for place, layer in enumerate(layers):  # the container stays, because the forward uses it as what it is
        owner.add_module(f"{name}_{place}", layer)
    inner = [p for place, part in enumerate(parts) for p in _registered(owner, f"{name}_{place}_", part)]
    return [*(p for layer in layers for p in layer.parameters()), *inner]
