"""The exchanges: one ingredient of the training at a time is exchanged for the textbook's, on a copy.

Each belongs to a check, which names the cause if the exchange rescues the training. Those that cannot change anything
here (void) or have no reason to (immaterial) are left out: that is where much of the specificity comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from nbdebug.core.finding import Finding
from nbdebug.core.remedy import Patch, Remedy
from nbdebug.experiments.trial_training import HeldOut
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch, Setup

__all__ = ["Exchange", "exchanges_for", "hypotheses"]

SHIFTED = 0.5  # standard deviations: so far from zero is the mean of no usual initialization
MOST_ALTERNATIVES = 3  # fixes of one finding that are tried
REPAIR = ""  # helps whatever the cause is, so it is offered and never named


@dataclass(frozen=True)
class Exchange:
    """What is exchanged, the check that it belongs to, the cause in words, and the fix.

    `where` is the place that a finding names. Without a check it is a repair, which names no cause. `is_hypothesis`
    says that a check of this run suggests it.
    """

    name: str
    check: str
    cause: str
    where: str
    remedies: tuple[Remedy, ...]
    is_hypothesis: bool = False

    @property
    def patches(self) -> tuple[Patch, ...]:
        """What is done to the copy."""
        return tuple(remedy.patch for remedy in self.remedies if remedy.patch is not None)


def hypotheses(findings: Sequence[Finding]) -> list[Exchange]:
    """Return for each alarm the fixes that can be tried, one exchange for each alternative, at all of its places."""
    found: dict[tuple[str, int], list[Remedy]] = {}
    first: dict[str, Finding] = {}
    for finding in (finding for finding in findings if finding.is_alarm):
        first.setdefault(finding.check, finding)
        for number, remedy in enumerate([r for r in finding.remedies if r.verifiable][:MOST_ALTERNATIVES]):
            known = found.setdefault((finding.check, number), [])
            if remedy.patch not in [other.patch for other in known]:
                known.append(remedy)
    return [
        Exchange(f"{check} fixed", check, first[check].says, first[check].where, tuple(remedies), is_hypothesis=True)
        for (check, _), remedies in found.items()
    ]


def exchanges_for(sandbox: Sandbox, data: HeldOut) -> list[Exchange]:
    """Return the exchanges that are neither void nor immaterial here, in the order in which causes are named."""
    setup = sandbox.setup
    found: list[Exchange] = [*_wiring(sandbox), *_step(setup), *_regularization(sandbox), *_head(sandbox)]
    found += [*_scales(data), *_start(sandbox), *_rates(), *_network(), *_batches(data)]
    return found + list(_repairs())


def _one(name: str, check: str, cause: str, where: str, *fixes: tuple[str, str, Patch]) -> Exchange:
    return Exchange(name, check, cause, where, tuple(Remedy(says, code, patch) for says, code, patch in fixes))


def _wiring(sandbox: Sandbox) -> Iterator[Exchange]:
    held = {id(p) for group in sandbox.optimizer.param_groups for p in group["params"]}
    missing = [n for n, p in sandbox.model.named_parameters() if p.requires_grad and id(p) not in held]
    frozen = [n for n, p in sandbox.model.named_parameters() if not p.requires_grad and p.is_floating_point()]
    if missing and sandbox.setup.optimizer is not None:
        fix = ("Pass all parameters to the optimizer.", "optimizer = torch.optim.Adam(model.parameters())")
        yield _one(
            "all parameters in the optimizer", "parameters-missing-from-optimizer",
            f"{len(missing)} trainable parameters are not in the optimizer", missing[0],
            (*fix, Patch("train-everything")),
        )  # fmt: skip
    if frozen:
        fix = ("Set requires_grad to True.", "for p in model.parameters():\n    p.requires_grad_(True)")
        yield _one(
            "no frozen parameters", "frozen-parameters", f"{len(frozen)} parameters are frozen", frozen[0],
            (*fix, Patch("unfreeze", {"parameters": frozen})),
        )  # fmt: skip


def _step(setup: Setup) -> Iterator[Exchange]:
    if setup.train_step is not None:
        yield _one(
            "training mode in every step", "left-in-eval-mode", "The model does not train in training mode",
            "train_step", ("Call model.train() before each step.", "model.train()", Patch("switch-to-training")),
        )  # fmt: skip
        code = "optimizer.zero_grad()\nloss = loss_fn(model(x), y)\nloss.backward()\noptimizer.step()"
        yield _one(
            "a plain training step", "training-fails", "Your train_step does not train the model", "train_step",
            ("Use the standard step: zero_grad, forward, backward, step.", code, Patch("plain-loop")),
        )  # fmt: skip
    loader = setup.feed.loader
    if isinstance(loader, DataLoader) and not isinstance(getattr(loader, "sampler", None), RandomSampler):
        yield _one(
            "shuffled samples", "unshuffled-loader", "The training samples are not shuffled", "loader",
            ("Shuffle the training data.", "DataLoader(dataset, batch_size=32, shuffle=True)", Patch("shuffle")),
        )  # fmt: skip


def _regularization(sandbox: Sandbox) -> Iterator[Exchange]:
    if sandbox.compute_loss is not None:
        yield _one(
            "the usual loss alone", "loss-terms-unbalanced", "Another term of compute_loss outweighs the error",
            "compute_loss", ("Train with the error alone, then add one term at a time.", "", Patch("plain-loss")),
        )  # fmt: skip
    yield _one(
        "no dropout", "excessive-dropout", "Dropout removes too much of the signal", "model",
        ("Lower the dropout probability.", "nn.Dropout(0.1)", Patch("limit-dropout", {"share": 0.0})),
    )  # fmt: skip
    if any(group.get("weight_decay") for group in sandbox.optimizer.param_groups):
        setting = Patch("set-optimizer-option", {"option": "weight_decay", "value": 0.0})
        yield _one(
            "no weight decay", "excessive-weight-decay", "The weight decay is too strong", "optimizer",
            ("Lower the weight decay.", "torch.optim.AdamW(model.parameters(), weight_decay=1e-4)", setting),
        )  # fmt: skip


def _head(sandbox: Sandbox) -> Iterator[Exchange]:
    drop = ("Remove the last activation.", "", Patch("drop-last-activation"))
    usual = ("Train with the loss that fits outputs and targets.", "", Patch("replace-loss", {"loss": "usual"}))
    cause, check = "The last layer does not fit the loss and the targets", "wrong-loss-for-task"
    yield _one("no last activation", check, cause, "model", drop)
    yield _one("the usual loss", check, cause, "loss_fn", usual)
    yield _one("no last activation and the usual loss", check, cause, "loss_fn", drop, usual)


def _scales(data: HeldOut) -> Iterator[Exchange]:
    if any(_is_off_scale(values, column_ratio=30.0) for values in _columns(data, lambda batch: batch.inputs)):
        fix = ("Standardize the inputs.", "x = (x - mean) / std", Patch("standardize-inputs"))
        yield _one("standardized inputs", "unnormalized-inputs", "The inputs are not normalized", "batch", fix)
    if any(_is_off_scale(values, least=0.02) for values in _columns(data, lambda batch: batch.targets)):
        fix = ("Standardize the targets.", "y = (y - y_mean) / y_std", Patch("standardize-targets"))
        yield _one("standardized targets", "unscaled-targets", "The targets are far from unit scale", "batch", fix)


def _columns(data: HeldOut, part: Callable[[Batch], dict[str, torch.Tensor]]) -> list[torch.Tensor]:
    """Return each floating-point input or target as rows of features."""
    found: dict[str, list[torch.Tensor]] = {}
    for batch in data.train[:16]:
        for name, tensor in part(batch).items():
            if tensor.is_floating_point() and tensor.dim() > 0:
                found.setdefault(name, []).append(tensor.detach().double().reshape(len(tensor), -1))
    return [torch.cat(rows) for rows in found.values() if len({r.shape[1] for r in rows}) == 1]


def _is_off_scale(values: torch.Tensor, least: float = 0.05, column_ratio: float = math.inf) -> bool:
    """Whether these values are so far from unit scale that standardizing them may matter (differential.md)."""
    values = values[torch.isfinite(values).all(1)]
    if len(values) < 2:
        return False
    mean, std = float(values.mean().abs()), float(values.std())
    if mean > 10 or std > 5 or std < least or mean > 5 * std:
        return True
    columns = values.std(0)
    columns = columns[columns > 1e-6 * columns.max()]
    return values.shape[1] <= 512 and bool(columns.max() > column_ratio * columns.min())


def _start(sandbox: Sandbox) -> Iterator[Exchange]:
    odd = [name for name, scale in _weight_scales(sandbox.model) if not 0.45 <= scale <= 3.2]
    if odd:
        code = f"nn.init.kaiming_uniform_(model.{odd[0]}.weight, a=5 ** 0.5)"
        yield _one(
            "PyTorch's default initialization", "initialization-off-scale",
            f"The initial weights of {len(odd)} layers are off scale", odd[0],
            ("Initialize with PyTorch's defaults.", code, Patch("reinitialize")),
        )  # fmt: skip


def _weight_scales(model: nn.Module) -> Iterator[tuple[str, float]]:
    """Return for each linear or convolution layer its standard deviation against PyTorch's default; 0 if shifted."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)) and isinstance(weight, torch.Tensor):
            values, fan_in = weight.detach().double(), weight[0].numel()
            if values.numel() > 8:
                std, mean = float(values.std()), float(values.mean().abs())
                yield name, 0.0 if mean > SHIFTED * std else std * math.sqrt(3 * fan_in)


def _rates() -> Iterator[Exchange]:
    for factor in (3, 10, 30, 100):
        fix = (f"Divide the learning rate by {factor}.", "", Patch("multiply-learning-rate", {"factor": 1 / factor}))
        yield _one(
            f"learning rate ÷ {factor}", "learning-rate-too-high", "The learning rate is too high", "optimizer", fix
        )
    for factor in (3, 10, 30, 100, 1000, 10000):
        fix = (f"Multiply the learning rate by {factor}.", "", Patch("multiply-learning-rate", {"factor": factor}))
        yield _one(
            f"learning rate × {factor}", "learning-rate-too-low", "The learning rate is too low", "optimizer", fix
        )


def _network() -> Iterator[Exchange]:
    relu = ("Replace sigmoid and tanh in hidden layers with ReLU.", "nn.ReLU()", Patch("relu-activations"))
    cause = "The gradient vanishes in saturating hidden activations"
    yield _one("ReLU in hidden layers", "vanishing-gradients", cause, "model", relu)
    fix = ("Use the optimizer's default options.", "", Patch("default-optimizer-options"))
    yield _one(
        "the optimizer's default options",
        "unusual-optimizer",
        "An option of the optimizer is unusual",
        "optimizer",
        fix,
    )


def _batches(data: HeldOut) -> Iterator[Exchange]:
    size = data.train[0].size
    if size < 8 or size > 512:
        fix = (
            "Use batches of 32 samples.",
            "DataLoader(dataset, batch_size=32)",
            Patch("reload-batches", {"size": 32}),
        )
        yield _one("batches of 32 samples", "extreme-batch-size", f"The batch size is {size}", "loader", fix)


def _repairs() -> Iterator[Exchange]:
    adam = ("Train with Adam.", "torch.optim.Adam(model.parameters(), lr=1e-3)", Patch("textbook-optimizer"))
    yield _one("Adam with a learning rate of 0.001", REPAIR, "", "optimizer", adam)
    norm = ("Add normalization layers between hidden layers.", "nn.BatchNorm1d(width)", Patch("normalize-between"))
    yield _one("normalization layers", REPAIR, "", "model", norm)
    residual = ("Add residual connections.", "x = x + layer(x)", Patch("shortcuts"))
    yield _one("residual connections", REPAIR, "", "model", residual)
    clip = ("Clip the gradient norm.", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)", Patch("clip-gradients"))
    yield _one("clipped gradients", REPAIR, "", "optimizer", clip)
