"""Patches of deep networks: keep activations and gradients from vanishing over many layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.core.torch_compat import Convolution
from nbdebug.errors import NotApplicable
from nbdebug.fixes import patch
from nbdebug.fixes.places import called_layers
from nbdebug.sandbox import Sandbox

__all__: list[str] = []


@patch()
def normalize_between(sandbox: Sandbox) -> None:
    """Add BatchNorm without affine parameters after every hidden layer with weights."""
    for _, layer in _hidden(sandbox):
        layer.register_forward_hook(_Normalized())


class _Normalized:
    """Apply BatchNorm to the output of a layer.

    Over the samples, because a vanishing signal leaves the same offset in all of them: a normalization within a sample
    would keep that offset and lose the rest. For sequences, where samples are not a separate dimension, LayerNorm is
    used.
    """

    def __init__(self) -> None:
        self.norm: Any = None

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        """Normalize in the mode of the layer."""
        if isinstance(module, nn.Linear) and output.dim() != 2:
            return nn.functional.layer_norm(output, output.shape[-1:])
        if self.norm is None:
            kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
            self.norm = kinds[output.dim()](output.shape[1], affine=False).to(output.device, output.dtype)
        alone = output.numel() == output.shape[1]  # one value per feature has no standard deviation
        normalized: torch.Tensor = self.norm.train(module.training and not alone)(output)
        return normalized


@patch()
def shortcuts(sandbox: Sandbox) -> None:
    """Add a residual connection around every hidden layer whose input and output have the same shape."""
    for _, layer in _hidden(sandbox):
        layer.register_forward_hook(_added)


def _added(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    same = bool(args) and isinstance(args[0], torch.Tensor) and args[0].shape == output.shape
    return output + args[0] if same else output


def _hidden(sandbox: Sandbox) -> list[tuple[str, nn.Module]]:
    """Return the layers with weights except the last, in call order."""
    kinds = (nn.Linear, Convolution)
    weighted: list[tuple[str, nn.Module]] = list(
        dict.fromkeys((path, m) for path, m in called_layers(sandbox) if isinstance(m, kinds))
    )
    if len(weighted) < 2:
        raise NotApplicable("there are no hidden nn.Linear or convolution layers")
    return weighted[:-1]
