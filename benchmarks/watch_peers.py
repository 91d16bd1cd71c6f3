"""Other tools that record a training, for `benchmarks.watch_overhead --peers`; what is not installed is named."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

Watched = Callable[[nn.Module, Any], Any]


def peers() -> Iterator[tuple[str, Watched]]:
    """Return every peer that is installed, recording everything at every step."""
    known = {
        "tensorboard": ("TensorBoard histograms", tensorboard),
        "wandb": ("wandb.watch(log='all')", wandb),
        "fastai": ("fastai ActivationStats", fastai),
        "torchlens": ("torchlens, one inspection", torchlens),
    }
    for package, (title, watched) in known.items():
        if importlib.util.find_spec(package) is None:
            print(f"{title}: {package} is not installed")
        else:
            yield f"{title} {importlib.metadata.version(package)}", watched


@contextmanager
def outputs_kept(model: nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Keep what every module gives."""
    kept: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda module, args, output: kept.update({name: output}) if torch.is_tensor(output) else None

    handles = [m.register_forward_hook(keep(name)) for name, m in model.named_modules() if not list(m.children())]
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def tensorboard(model: nn.Module, optimizer: Any) -> Iterator[None]:
    """Histograms of parameters, gradients and activations."""
    from torch.utils.tensorboard import SummaryWriter

    step = 0
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer, outputs_kept(model) as kept:

        def write(*_: Any) -> None:
            nonlocal step
            step += 1
            for name, p in model.named_parameters():
                writer.add_histogram(f"{name}/value", p.detach(), step)
                if p.grad is not None:
                    writer.add_histogram(f"{name}/gradient", p.grad, step)
            for name, output in kept.items():
                writer.add_histogram(f"{name}/output", output.detach(), step)

        handle = optimizer.register_step_post_hook(write)
        yield
        handle.remove()


@contextmanager
def wandb(model: nn.Module, optimizer: Any) -> Iterator[None]:
    """Histograms of parameters and gradients, offline."""
    import wandb as peer

    os.environ["WANDB_SILENT"] = "true"
    with tempfile.TemporaryDirectory() as folder:
        run = peer.init(mode="offline", dir=folder, project="overhead")
        run.watch(model, log="all", log_freq=1)
        handle = optimizer.register_step_post_hook(lambda *_: run.log({"step": 1}))
        yield
        handle.remove()
        run.unwatch(model)
        run.finish()


@contextmanager
def fastai(model: nn.Module, optimizer: Any) -> Iterator[None]:
    """Mean, standard deviation, share near zero and histogram of the activations."""
    from fastai.callback.hook import ActivationStats, Hooks

    stats = ActivationStats(with_hist=True)
    layers = [m for m in model.modules() if not list(m.children())]
    with Hooks(layers, stats.hook, is_forward=True):
        yield


@contextmanager
def torchlens(model: nn.Module, optimizer: Any) -> Iterator[None]:
    """A trace of one forward pass at every step, beside the step itself."""
    import torchlens as peer

    given: list[Any] = []
    handle = model.register_forward_pre_hook(lambda module, args: given.append(args) if not given else None)
    looked = optimizer.register_step_post_hook(lambda *_: peer.trace(model, given[0]))
    yield
    handle.remove()
    looked.remove()
