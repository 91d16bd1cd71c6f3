"""Which loss is meant: the user's, the model's own, or one inferred from outputs and targets, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.errors import BadInput
from nbdebug.setup.nested import is_mapping_like, leaves

__all__ = ["LossChoice", "infer_loss", "main_output", "own_loss", "parts_of", "total_of"]

OUTPUT_NAMES = ("logits", "out", "output", "outputs", "pred", "preds", "prediction", "predictions", "scores", "x_hat")


@dataclass(frozen=True)
class LossChoice:
    """A loss with its name, whether it was assumed, and why."""

    function: Callable[..., Any]
    name: str
    assumed: bool
    reason: str

    def __str__(self) -> str:
        """Say it as the wizard does."""
        return f"{'assumed ' if self.assumed else ''}{self.name}, because {self.reason}"


class ClassLastCrossEntropy(nn.Module):
    """Cross-entropy of outputs whose classes are in the last dimension, as sequence models give them."""

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Move the classes to where cross-entropy wants them."""
        return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten().long())


class ClassIdCrossEntropy(nn.Module):
    """Cross-entropy with class ids of any integer type."""

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Widen the ids, which cross-entropy wants as 64-bit integers."""
        return nn.functional.cross_entropy(output, target.long())


class ShapedLoss(nn.Module):
    """A loss whose target is first brought to the type of the output, as training loops usually do."""

    def __init__(self, inner: nn.Module, reshape: bool = False) -> None:
        super().__init__()
        self.inner, self.reshape = inner, reshape

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Convert, and compare."""
        target = target.to(output.dtype)
        loss: torch.Tensor = self.inner(output, target.reshape(output.shape) if self.reshape else target)
        return loss


def own_loss(output: Any) -> torch.Tensor | None:
    """Return the loss that a model returns by itself, as `.loss`, `["loss"]` or a scalar."""
    found = output["loss"] if is_mapping_like(output) and "loss" in output else getattr(output, "loss", None)
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        return found
    if isinstance(output, torch.Tensor) and output.dim() == 0 and output.is_floating_point():
        return output
    return None


TOTAL_NAMES = ("loss", "total", "total_loss")


def total_of(value: Any) -> Any:
    """Return the one number among what a loss returned: the value itself, its entry "loss", or the first of a tuple.

    A mapping of terms without a total is summed, as every loop that gets one does. What is no number comes back None.
    """
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return torch.tensor(float(value))
    if is_mapping_like(value):
        named = [value[name] for name in TOTAL_NAMES if name in value]
        terms = [term for term in parts_of(value).values() if isinstance(term, torch.Tensor)]
        return total_of(named[0]) if named else sum(terms[1:], terms[0]) if terms else None
    if isinstance(value, (list, tuple)) and value:
        return total_of(value[0])
    return total_of(value.loss) if hasattr(value, "loss") else None


def parts_of(value: Any) -> dict[str, torch.Tensor]:
    """Return the named terms that a loss returned beside its total."""
    if isinstance(value, (list, tuple)):
        return next((parts for item in value[1:] if (parts := parts_of(item))), {})
    if not is_mapping_like(value):
        return {}
    return {
        str(name): value[name]
        for name in value.keys()  # noqa: SIM118 - a mapping-like may iterate over values
        if name not in TOTAL_NAMES and isinstance(value[name], torch.Tensor) and value[name].numel() == 1
    }


def main_output(output: Any) -> torch.Tensor | None:
    """Return the tensor that is the prediction among what a model returns."""
    if isinstance(output, torch.Tensor):
        return output
    for name in OUTPUT_NAMES:
        found = output[name] if is_mapping_like(output) and name in output else getattr(output, name, None)
        if isinstance(found, torch.Tensor):
            return found
    floats = [leaf for _, leaf in leaves(output) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    return next((leaf for leaf in floats if leaf.dim() > 0), None)


def infer_loss(output: Any, target: Any, has_target: bool) -> LossChoice:
    """Choose the loss that a practitioner would for these outputs and targets, and say why."""
    predicted = main_output(output)
    if own_loss(output) is not None:
        return LossChoice(_take_own, "the model's own loss", False, "the model returns it")
    if not isinstance(predicted, torch.Tensor) or not isinstance(target, torch.Tensor):
        raise _cannot(predicted, target)
    if not has_target:
        if predicted.shape != target.shape or not target.is_floating_point():
            raise _cannot(predicted, None)
        return _assume(nn.MSELoss(), "MSELoss", "there is no target, and the output has the shape of the input")
    if predicted.is_complex() or target.is_complex():
        return _assume(_complex_mse, "the mean squared error", "outputs or targets are complex")
    if not target.is_floating_point():
        return _for_ids(predicted, target)
    return _for_floats(predicted, target)


def _for_ids(predicted: torch.Tensor, target: torch.Tensor) -> LossChoice:
    shape, wanted = tuple(predicted.shape), tuple(target.shape)
    if len(shape) == len(wanted) + 1 and (shape[0], *shape[2:]) == wanted and shape[1] > 1:
        return _assume(
            ClassIdCrossEntropy(),
            "CrossEntropyLoss",
            f"outputs {shape} are logits of {shape[1]} classes for integer targets {wanted}",
        )
    if len(shape) == len(wanted) + 1 and shape[:-1] == wanted and shape[-1] > 1:
        return _assume(
            ClassLastCrossEntropy(),
            "CrossEntropyLoss",
            f"outputs {shape} are logits of {shape[-1]} classes for each of the targets {wanted}",
        )
    if predicted.numel() == target.numel() and _is_binary(target):
        return _binary(predicted, target, f"integer targets of 0 and 1 have as many elements as the outputs {shape}")
    if predicted.numel() == target.numel():
        return _assume(
            ShapedLoss(nn.MSELoss(), reshape=True),
            "MSELoss",
            f"integer targets {wanted} have as many elements as the outputs {shape}",
        )
    raise _cannot(predicted, target)


def _for_floats(predicted: torch.Tensor, target: torch.Tensor) -> LossChoice:
    shape, wanted = tuple(predicted.shape), tuple(target.shape)
    if shape == wanted and len(shape) == 2 and shape[1] > 1 and _rows_are_distributions(target):
        return _assume(
            ShapedLoss(nn.CrossEntropyLoss()), "CrossEntropyLoss", f"each row of the targets {wanted} sums to 1"
        )
    if predicted.numel() == target.numel() and _is_binary(target):
        return _binary(predicted, target, f"the targets {wanted} are all 0 or 1")
    try:
        torch.broadcast_shapes(shape, wanted)
    except RuntimeError:
        raise _cannot(predicted, target) from None
    return _assume(ShapedLoss(nn.MSELoss()), "MSELoss", f"the targets {wanted} are real numbers")


def _binary(predicted: torch.Tensor, target: torch.Tensor, reason: str) -> LossChoice:
    values = predicted.detach()
    if bool((values >= 0).all() and (values <= 1).all()) and values.numel() > 1:
        return _assume(
            ShapedLoss(nn.BCELoss(), reshape=True), "BCELoss", f"{reason} and all outputs lie between 0 and 1"
        )
    return _assume(ShapedLoss(nn.BCEWithLogitsLoss(), reshape=True), "BCEWithLogitsLoss", reason)


def _assume(function: Callable[..., Any], name: str, reason: str) -> LossChoice:
    return LossChoice(_TakeMain(function), name, True, reason)


class _TakeMain:
    """A loss that picks the prediction out of what the model returns before it compares."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, output: Any, target: Any) -> Any:
        """Compare the main output with the target."""
        return self.function(main_output(output), target)


def _take_own(output: Any, target: Any) -> torch.Tensor:
    found = own_loss(output)
    if found is None:
        raise TypeError("the model returned no loss this time")
    return found


def _complex_mse(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (output - target).abs().square().mean()


def _is_binary(target: torch.Tensor) -> bool:
    return bool(((target == 0) | (target == 1)).all())


def _rows_are_distributions(target: torch.Tensor) -> bool:
    sums = target.detach().double().sum(1)
    return bool((target >= 0).all() and (sums - 1).abs().max() < 1e-3)


def _cannot(predicted: Any, target: Any) -> BadInput:
    def shape(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{tuple(value.shape)} {value.dtype}"
        return "(none)" if value is None else type(value).__name__

    return BadInput(
        f"outputs {shape(predicted)} and targets {shape(target)} match no standard loss",
        where="loss_fn",
        expected="a loss, because none can be inferred here",
        do="pass loss_fn, or compute_loss=lambda model, batch, loss_fn: … if a batch is not (inputs, targets)",
    )
