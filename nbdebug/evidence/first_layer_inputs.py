"""What arrives at the first weights, and does the model normalize it by itself?"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.image_layout import PICTURES, ImageLayout, layout_of
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.capture import tapped
from nbdebug.experiments.trace import owned_matrices
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import first_tensor
from nbdebug.setup.read_samples import at_random
from nbdebug.setup.recognition import kind_of
from nbdebug.setup.sample_dataset import seed_torch
from nbdebug.setup.user_code import user_code

__all__ = ["FirstLayer", "FirstWeights", "first_weights"]


@dataclass(frozen=True)
class FirstLayer:
    """What arrives at a layer with weights before any other weight has touched it, feature by feature.

    `size` is the root mean square of all values of a feature, `filled` that of its values other than 0. `drive` is
    the root mean square of what the weights make of it, before any activation.
    """

    path: str
    module: str
    samples: int
    size: np.ndarray
    filled: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    low: float
    high: float
    drive: float
    features: int
    layout: ImageLayout | None = None


@dataclass(frozen=True)
class FirstWeights:
    """The first layers with weights, and how much of a change of scale comes through to the end of the model.

    `response` is the relative change of the deepest varying activation when all inputs are made ten times smaller: near
    0 in a model that normalizes by itself. `noise` is the change between two equal passes. `pictures` says that one of
    the model's inputs holds images, flattened ones included.
    """

    layers: tuple[FirstLayer, ...]
    response: float
    noise: float
    pictures: bool = False

    @property
    def ignores_scale(self) -> bool:
        """Whether the model normalizes what it receives, wherever that is done."""
        return self.response < max(0.05, 2 * self.noise)


SAMPLES = 512
BATCH = 128
LOOKS = 2
FEATURES = 4096
SMALLER = 0.1
FEW = 32  # samples; how much of a change arrives shows in a few of them


@probe
def first_weights(sandbox: Sandbox, trial: TrialRun, control: Control) -> FirstWeights:
    """Measure the input scale of the first weighted layers on random samples."""
    require_run(trial)
    sandbox.ready_to_train()
    for parameter in sandbox.model.parameters():
        parameter.requires_grad_(parameter.dim() >= 2 and parameter.is_floating_point())
    taps: dict[str, _Tap] = {}
    batches = _random_batches(sandbox, control)
    for index, batch in enumerate(batches):
        if index == LOOKS and not taps:
            break  # what the first passes do not show, as with token ids, the others will not either
        with suppress(_Seen), tapped(sandbox.model, before=_look_before(taps, set(taps))):
            sandbox.run(batch)
    layers = tuple(tap.facts() for tap in _innermost(taps).values() if tap.samples)
    if not layers:
        raise NotApplicable("no layer with weights receives floating-point inputs")
    response, noise = _response(sandbox, batches[0] if sandbox.setup.whole_batches else batches[0].head(FEW))
    inputs = batches[0].inputs.items()
    pictures = any(kind_of(name, values) == "image" for name, values in inputs)
    return FirstWeights(layers, response, noise, pictures)


def _random_batches(sandbox: Sandbox, control: Control) -> list[Batch]:
    """Draw samples from all over the data; a stream gives its first ones."""
    setup = sandbox.setup
    if setup.whole_batches:
        return sandbox.batches(4)
    draws = at_random(setup.feed, setup.wrap, math.inf, control.poll)
    if draws is None:
        return [batch.head(BATCH).to(sandbox.device) for batch in setup.batches(4)]
    batches: list[Batch] = []
    for draw in islice(draws, SAMPLES):
        batches += [draw.batch.head(BATCH).to(sandbox.device)] if draw.batch is not None else []
        if sum(batch.size for batch in batches) >= min(SAMPLES, setup.sweep_samples):
            break
    whole = [batch for batch in batches if batch.size > 1] or batches
    if not whole:
        raise NotApplicable("no batch could be loaded; see empty-loader and sample-fails")
    return whole


class _Tap:
    """The running sums of what one layer receives."""

    def __init__(self, path: str, module: nn.Module, axis: int) -> None:
        self.path, self.module, self.axis = path, type(module).__name__, axis
        self.samples, self.features = 0, 0
        self.sums: list[np.ndarray] = []
        self.low, self.high = float("inf"), float("-inf")
        self.pictures: list[torch.Tensor] = []
        matrices = [matrix.detach().double() for _, matrix in owned_matrices(module)]
        self.kernel = max(matrix.dim() for matrix in matrices)
        self.row = float(matrices[0].flatten(1).square().sum(1).mean().sqrt())  # the length of a row of weights

    def add(self, tensor: torch.Tensor) -> None:
        """Count one batch in, feature by feature."""
        tensor = tensor.detach()
        tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
        values = tensor.movedim(self.axis, -1).flatten(0, -2).double()
        values = torch.where(torch.isfinite(values), values, 0.0)
        if self.features not in (0, values.shape[1]):
            return
        self.features = values.shape[1]
        values = values[:, :: max(1, self.features // FEATURES)]
        filled = (values != 0).sum(0)
        sums = torch.stack([torch.full_like(values[0], len(values)), filled, values.sum(0), values.square().sum(0)])
        self.sums.append(sums.cpu().numpy())
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.samples += tensor.shape[0]
        if tensor.dim() == 4 and self.kernel == 4 and sum(map(len, self.pictures)) < PICTURES:
            self.pictures.append(tensor[:PICTURES].cpu())

    def facts(self) -> FirstLayer:
        """Return what was counted."""
        count, filled, total, squares = np.sum(self.sums, axis=0)
        mean = total / count
        same = [p for p in self.pictures if p.shape[1:] == self.pictures[0].shape[1:]]
        return FirstLayer(
            self.path, self.module, self.samples,
            size=np.sqrt(squares / count),
            filled=np.sqrt(squares / np.maximum(filled, 1)),
            mean=mean,
            std=np.sqrt(np.maximum(squares / count - mean**2, 0)),
            low=self.low, high=self.high,
            drive=float(self.row * np.sqrt(squares.sum() / count.sum())),
            features=self.features,
            layout=layout_of(torch.cat(same)) if same else None,
        )  # fmt: skip


class _Seen(Exception):
    """Everything that a pass is run for has been seen."""


def _look_before(taps: dict[str, _Tap], known: set[str]) -> Callable[[str, nn.Module, Any], None]:
    """Make a hook for one pass that counts in what layers with weights receive, if no weight was before them.

    Once the first pass has shown which layers these are, a pass ends behind the last of them.
    """
    found: list[str] = []

    def before(path: str, module: nn.Module, inputs: Any) -> None:
        tensor, matrices = first_tensor(inputs), [matrix for _, matrix in owned_matrices(module)]
        if not matrices or tensor is None or not tensor.is_floating_point() or tensor.dim() < 2:
            return
        if tensor.requires_grad or tensor.is_nested or tensor.numel() == 0 or path in found:
            return
        if not torch.is_grad_enabled() and found and not all(_is_above(other, path) for other in found):
            return  # inside no_grad nothing tells whether a weight came before
        found.append(path)
        taps.setdefault(path, _Tap(path, module, _feature_axis(tensor, matrices))).add(tensor)
        if known and known <= set(found):
            raise _Seen

    return before


def _feature_axis(tensor: torch.Tensor, matrices: list[torch.Tensor]) -> int:
    """Return the axis over which the weights add up: the last for a matrix, the channels for a kernel."""
    fits = any(matrix.dim() == 2 and tensor.shape[-1] in matrix.shape for matrix in matrices)
    return -1 if fits or tensor.dim() == 2 else 1


def _is_above(path: str, other: str) -> bool:
    return path == "model" or other.startswith(f"{path}.")


def _innermost(taps: dict[str, _Tap]) -> dict[str, _Tap]:
    """Leave out modules that only hold others which are tapped themselves."""
    return {
        path: tap for path, tap in taps.items() if not any(other != path and _is_above(path, other) for other in taps)
    }


def _response(sandbox: Sandbox, batch: Batch) -> tuple[float, float]:
    """Make the inputs smaller and see how much of that arrives at the deepest activation that varies."""
    smaller = batch.map_inputs(lambda _, t: t * SMALLER if t.is_floating_point() else t)
    if batch.inputs and not any(t.is_floating_point() for t in batch.inputs.values()):
        smaller = batch.map_inputs(lambda _, t: t // 2)
    reference, again, changed = (_deepest(sandbox, b) for b in (batch, batch, smaller))
    if reference is None or again is None or changed is None:
        return float("inf"), 0.0
    return _difference(reference, changed), _difference(reference, again)


@torch.no_grad()
def _deepest(sandbox: Sandbox, batch: Batch) -> torch.Tensor | None:
    seen: list[torch.Tensor] = []

    def after(path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        tensor = first_tensor(output)
        if tensor is not None and tensor.is_floating_point() and tensor.dim() > 1 and tensor.shape[0] == batch.size:
            values = tensor.detach().double()
            if bool(torch.isfinite(values).all()) and float(values.std(0).mean()) > 1e-6 * float(values.abs().mean()):
                seen.append(values)

    seed_torch(0)
    with user_code(passing=()), tapped(sandbox.model, after=after):
        sandbox.forward(batch) if sandbox.compute_loss is None else sandbox.run(batch)
        return seen[-1] if seen else None
    return None


def _difference(reference: torch.Tensor, other: torch.Tensor) -> float:
    if reference.shape != other.shape:
        return float("inf")
    spread = float((reference - reference.mean(0)).square().mean().sqrt())
    return float((reference - other).square().mean().sqrt()) / max(spread, 1e-12)
