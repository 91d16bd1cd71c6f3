"""Patches of deep networks: what lets a signal, and the gradient back, survive the way through many layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nbdebug.errors import NotApplicable
from nbdebug.remedies import patch
from nbdebug.remedies.places import called_layers
from nbdebug.twin import Twin

__all__: list[str] = []


@patch()
def normalise_between(twin: Twin) -> None:
    """Put a batch normalisation without parameters behind every hidden layer with weights."""
    for _, layer in _hidden(twin):
        layer.register_forward_hook(_Normalised())


class _Normalised:
    """What `nn.BatchNorm` makes of the output of a layer.

    Over the samples, because a signal that dies leaves the same offset in all of them: a normalisation within a sample
    would keep that offset and lose the rest. Of a sequence, where samples are no dimension of their own, within steps.
    """

    def __init__(self) -> None:
        self.norm: Any = None

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        """Normalise in the mode that the layer is in."""
        if isinstance(module, nn.Linear) and output.dim() != 2:
            return nn.functional.layer_norm(output, output.shape[-1:])
        if self.norm is None:
            kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
            self.norm = kinds[output.dim()](output.shape[1], affine=False).to(output.device, output.dtype)
        alone = output.numel() == output.shape[1]  # one value for each feature has no spread
        normalised: torch.Tensor = self.norm.train(module.training and not alone)(output)
        return normalised


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
