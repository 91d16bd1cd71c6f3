"""Start simple: choose a model by the kind of the data, train it, and give it with its code as the baseline."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.errors import BadInput, plainly
from nbdebug.improve import starters
from nbdebug.report.progress import control_shown
from nbdebug.sandbox import guarded
from nbdebug.setup import Setup
from nbdebug.setup.read_samples import over_all

__all__ = ["Starter", "starter"]

MOST = 10_000  # samples; Full Stack Deep Learning: work with about 10,000 at first
RATE = 3e-4  # the same: Adam with 3e-4


@dataclass(frozen=True)
class Starter:
    """A trained simple model, how well it does on samples that it did not see, and the code to make it."""

    model: nn.Module = field(repr=False)
    kind: str
    reason: str
    task: str
    measure: str
    error: float
    chance: float
    samples: int
    code: str = field(repr=False)

    def __str__(self) -> str:
        """Return the figures and the code."""
        figures = f"{self.measure} {self.error:.4g} on held-out samples (chance level: {self.chance:.4g})"
        return f"{self.kind}, because {self.reason}: {figures}\n\n{self.code}"

    def _repr_html_(self) -> str:
        from nbdebug.views.page import code, lines, page

        figures = f"{self.measure} {self.error:.4g} on held-out samples (chance level: {self.chance:.4g})"
        return page(f"{self.kind}: {figures}", lines([f"chosen because {self.reason}"]), code(self.code))


@plainly
def starter(loader: Any, *, seconds: float = 20.0, seed: int = 0, progress: bool = True) -> Starter:
    """Make and train the simplest sensible model for this data: the baseline that a real one has to beat.

    Images get a LeNet-like network, tokens and series an LSTM with one hidden layer, everything else one hidden layer;
    Adam with 3e-4, normalized inputs, no regularization. A fifth of the samples is held out to judge it.

    Args:
        loader: The DataLoader, or any iterable of batches.
        seconds: About the longest time that it takes, in seconds.
        seed: The seed of the experiments.
        progress: Whether a progress bar is shown.
    """
    probe = nn.Identity()
    setup = Setup(probe, loader)
    with control_shown(progress, "training a baseline model") as control:
        return guarded(lambda: _started(setup, seconds, control), setup.live_parts(), control, seed=seed)


def _started(setup: Setup, seconds: float, control: Control) -> Starter:
    inputs, targets = _drawn(setup, seconds / 2, control)
    task, outputs, wanted = _task(targets)
    model, kind, reason, made = _chosen(inputs, outputs)
    order = torch.randperm(len(inputs))
    held, kept = order[: max(1, len(order) // 5)], order[max(1, len(order) // 5) :]
    _train(model, task, inputs[kept], wanted[kept], seconds / 2, control)
    with torch.no_grad():
        error = _error(model(inputs[held]), wanted[held], task)
    chance = _chance(wanted[kept], wanted[held], task)
    measure = "squared error" if task == "regression" else "error rate"
    return Starter(model, kind, reason, task, measure, error, chance, len(inputs), _code(model, made, task))


def _drawn(setup: Setup, seconds: float, control: Control) -> tuple[torch.Tensor, torch.Tensor]:
    parts: list[tuple[torch.Tensor, torch.Tensor]] = []
    until, count = time.monotonic() + seconds, 0
    for draw in over_all(setup.feed, setup.wrap, until, control.poll):
        batch = draw.batch
        if batch is None:
            continue
        tensors = [t for t in batch.inputs.values() if t.dim() > 0 and len(t) == batch.size]
        if not batch.has_target or not isinstance(batch.target, torch.Tensor) or not tensors:
            raise _unknown("batches without a tensor of inputs and one of targets")
        parts.append((tensors[0].cpu(), batch.target.cpu()))
        count += batch.size
        control.progress(0.3 * min(1.0, count / MOST), "loading samples")
        if count >= MOST:
            break
    if not parts:
        raise _unknown("no batch")
    shapes = {tuple(x.shape[1:]) for x, _ in parts}
    if len(shapes) > 1:
        raise _unknown(f"inputs of several shapes: {sorted(shapes)[:3]}")
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])


def _unknown(seen: str) -> BadInput:
    return BadInput(
        f"the loader yields {seen}",
        where="starter",
        expected="batches with one tensor of inputs of a fixed shape and one of targets",
        do="pass a loader like DataLoader(TensorDataset(inputs, targets), 32)",
    )


def _task(targets: torch.Tensor) -> tuple[str, int, torch.Tensor]:
    if not targets.is_floating_point() and targets.dim() == 1:
        return "classification", int(targets.max()) + 1, targets.long()
    if bool(((targets == 0) | (targets == 1)).all()):
        wanted = targets.float().reshape(len(targets), -1)
        return "yes or no", wanted.shape[1], wanted
    wanted = targets.float().reshape(len(targets), -1)
    return "regression", wanted.shape[1], wanted


def _chosen(inputs: torch.Tensor, outputs: int) -> tuple[nn.Module, str, str, str]:
    """Choose by the shape and the kind of the numbers; gives the model, its name, the reason, and the call."""
    shape = tuple(inputs.shape[1:])
    if not inputs.is_floating_point() and inputs.dtype != torch.uint8 and len(shape) == 1 and shape[0] >= 4:
        size = int(inputs.max()) + 1
        made = f"TokenStarter({size}, {outputs})"
        return starters.TokenStarter(size, outputs), "an LSTM", f"inputs {shape} are integers: tokens", made
    values = inputs.float()
    mean, std = round(float(values.mean()), 6), round(float(values.std()), 6) or 1.0
    if len(shape) == 3 and shape[0] <= 16 and min(shape[1:]) >= 4:
        made = f"ImageStarter({shape[0]}, {outputs}, mean={mean:g}, std={std:g})"
        model: nn.Module = starters.ImageStarter(shape[0], outputs, mean, std)
        return model, "a LeNet-like network", f"inputs {shape} look like images", made
    if len(shape) == 2:
        made = f"SeriesStarter({shape[1]}, {outputs}, mean={mean:g}, std={std:g})"
        model = starters.SeriesStarter(shape[1], outputs, mean, std)
        return model, "an LSTM", f"inputs {shape} look like time series (time, channels)", made
    flat = values.flatten(1)
    spread = flat.std(0).nan_to_num(1.0)
    spread[spread == 0] = 1.0
    made = f"TableStarter(inputs.mean(0), inputs.std(0), {outputs})"
    model = starters.TableStarter(flat.mean(0), spread, outputs)
    return model, "one hidden layer", f"inputs {shape} look like tabular data", made


LOSSES: dict[str, type[nn.Module]] = {
    "classification": nn.CrossEntropyLoss,
    "yes or no": nn.BCEWithLogitsLoss,
    "regression": nn.MSELoss,
}


def _train(
    model: nn.Module, task: str, inputs: torch.Tensor, wanted: torch.Tensor, seconds: float, control: Control
) -> None:
    """Train until the time is over or the loss has stopped to fall; targets of a regression are scaled meanwhile."""
    middle, spread = (wanted.mean(0), wanted.std(0).clamp(min=1e-12)) if task == "regression" else (0.0, 1.0)
    loss_fn, optimizer = LOSSES[task](), torch.optim.Adam(model.parameters(), RATE)
    begun, best, stale, epoch = time.monotonic(), float("inf"), 0, 0
    while time.monotonic() - begun < seconds and stale < 10 and epoch < 200:
        total = 0.0
        for rows in torch.randperm(len(inputs)).split(32):
            optimizer.zero_grad()
            target = wanted[rows] if task == "classification" else (wanted[rows] - middle) / spread
            loss = loss_fn(model(inputs[rows]), target)
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(rows)
            control.progress(0.3 + 0.7 * min(1.0, (time.monotonic() - begun) / seconds), "training a baseline model")
        stale = 0 if total < 0.99 * best else stale + 1
        best, epoch = min(best, total), epoch + 1
    model.eval()
    if task == "regression":
        _unscale(model, middle, spread)


def _unscale(model: nn.Module, middle: Any, spread: Any) -> None:
    """Let the last layer answer in the units of the targets."""
    last = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        last.weight.mul_(spread[:, None])
        last.bias.mul_(spread).add_(middle)


def _error(output: torch.Tensor, wanted: torch.Tensor, task: str) -> float:
    if task == "classification":
        return float((output.argmax(1) != wanted).double().mean())
    if task == "yes or no":
        return float(((output > 0) != (wanted > 0.5)).double().mean())
    return float((output - wanted).double().square().mean())


def _chance(known: torch.Tensor, wanted: torch.Tensor, task: str) -> float:
    """Return the error of the best answer that looks at no input."""
    if task == "classification":
        return float((known.mode().values != wanted).double().mean())
    if task == "yes or no":
        return float(((known.mean(0) > 0.5) != (wanted > 0.5)).double().mean())
    return float((known.mean(0) - wanted).double().square().mean())


def _code(model: nn.Module, made: str, task: str) -> str:
    """Return what a user would write to have the same model and train it."""
    source = inspect.getsource(type(model)).rstrip()
    loss = LOSSES[task].__name__
    return (
        f"import torch\nfrom torch import nn\n\n\n{source}\n\n\n"
        f"model = {made}\n"
        f"optimizer = torch.optim.Adam(model.parameters(), lr={RATE})\n"
        f"loss_fn = nn.{loss}()\n"
        "for inputs, targets in loader:\n"
        "    optimizer.zero_grad()\n"
        "    loss = loss_fn(model(inputs), targets)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
