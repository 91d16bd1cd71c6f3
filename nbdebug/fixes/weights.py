"""Patches of the initial values of weights and biases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.errors import NotApplicable
from nbdebug.fixes import patch
from nbdebug.fixes.places import last_layer
from nbdebug.sandbox import Sandbox

__all__: list[str] = []

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
UNIT = (0.01, 10.0)  # standard deviations that need no scaling; our choice: PyTorch's defaults shrink them with depth


@patch()
@torch.no_grad()
def reinitialize(sandbox: Sandbox, *, paths: Sequence[str] = (), gain: str = "") -> None:
    """Re-initialize the weights of these modules, or of all, by their fan-in; set biases to zero."""
    done = 0
    for name, module in sandbox.model.named_modules():
        if paths and name not in paths:
            continue
        for short, parameter in module.named_parameters(recurse=False):
            done += _initialized_by_fan_in(module, short, parameter, gain)
    if not done:
        raise NotApplicable("there is no weight to re-initialize")


def _initialized_by_fan_in(module: nn.Module, name: str, parameter: nn.Parameter, gain: str) -> int:
    if is_lazy(parameter) or not parameter.is_floating_point():
        return 0
    if parameter.dim() < 2:
        if "bias" in name:
            nn.init.zeros_(parameter)
        return int("bias" in name)
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        nn.init.normal_(parameter)
    elif isinstance(module, nn.RNNBase):
        nn.init.uniform_(parameter, -1 / math.sqrt(module.hidden_size), 1 / math.sqrt(module.hidden_size))
    elif gain:
        nn.init.kaiming_normal_(parameter, nonlinearity="relu")
    else:
        nn.init.kaiming_uniform_(parameter, a=math.sqrt(5))  # PyTorch's default for linear and convolution layers
    return 1


@patch()
def unit_activations(sandbox: Sandbox) -> None:
    """Divide the output of each layer that is far off unit scale on the first batch by its standard deviation there.

    The divisors stay constant, as if sums over neighbors or positions were means; the weights stay as they are.
    """
    divisors, first = dict[str, float](), list[float]()
    layers = [(n, m) for n, m in sandbox.model.named_modules() if isinstance(m, LAYERS)]

    def measure(path: str, module: Any, args: Any, output: Any) -> Any:
        std = float(output.detach().double().std()) if isinstance(output, torch.Tensor) and output.numel() > 1 else 1.0
        if path not in divisors:
            first.append(std)
            divisors[path] = std / first[0] if 0 < std < math.inf and not UNIT[0] <= std <= UNIT[1] else 1.0
        return divide(path, module, args, output)

    def divide(path: str, module: Any, args: Any, output: Any) -> Any:
        return output if divisors.get(path, 1.0) == 1.0 else output / divisors[path]

    hooks = [module.register_forward_hook(partial(measure, path)) for path, module in layers]
    try:
        with torch.no_grad():
            sandbox.ready_to_train()
            sandbox.run(sandbox.batch())
    finally:
        for hook in hooks:
            hook.remove()
    if all(divisor == 1.0 for divisor in divisors.values()):
        raise NotApplicable("the output of every layer is near unit scale")
    for path, module in layers:
        module.register_forward_hook(partial(divide, path))


@patch()
@torch.no_grad()
def small_head(sandbox: Sandbox, *, path: str = "", std: float = 0.01) -> None:
    """Initialize the last layer with small weights and zero bias, so that the first predictions are uniform."""
    head = last_layer(sandbox, path)
    nn.init.normal_(head.weight, std=std)
    if head.bias is not None:
        nn.init.zeros_(head.bias)


@patch()
@torch.no_grad()
def set_bias(sandbox: Sandbox, *, values: Sequence[float], path: str = "") -> None:
    """Set the bias of the last layer to these values."""
    bias = last_layer(sandbox, path).bias
    if bias is None or bias.numel() != len(values):
        raise NotApplicable("the bias of the last layer does not have this many values")
    bias.copy_(torch.tensor(list(values), dtype=bias.dtype).reshape(bias.shape))


@patch()
@torch.no_grad()
def zero_bias(sandbox: Sandbox, *, path: str) -> None:
    """Set the bias of a layer to zero; of the layer before it if it is an activation."""
    layer = last_layer(sandbox, path)
    if layer.bias is None:
        raise NotApplicable("the layer has no bias")
    nn.init.zeros_(layer.bias)
