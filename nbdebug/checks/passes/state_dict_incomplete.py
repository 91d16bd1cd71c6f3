"""State that a checkpoint of the model does not hold."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.batch_dim import relative_change
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.sample_dataset import seed_all
from nbdebug.setup.user_code import required_user_code

__all__ = ["Reload", "reload", "state_dict_incomplete"]


@dataclass(frozen=True)
class Reload:
    """Outputs of a copy that was trained, and of another one that loaded its state_dict, in eval mode.

    `difference` is the largest relative difference between the two and `noise` that between two runs of the first.
    `attributes` are the tensors beside parameters and buffers that differ.
    """

    difference: float
    noise: float
    steps: int
    attributes: tuple[str, ...] = ()


STEPS = 3


@probe(quick=False)
def reload(sandbox: Sandbox, trial: TrialRun, control: Control) -> Reload:
    """Train a copy for a few steps, load its state_dict into another copy and compare their outputs."""
    require_run(trial)
    if sandbox.how != "deepcopy":
        raise NotApplicable("the model cannot be copied completely, so two copies do not start equal")
    sandbox.ready_to_train()
    batches = sandbox.batches(STEPS)
    for number, batch in enumerate(batches):
        control.progress(number / STEPS, "training a copy to save it")
        sandbox.plain_step(batch)
    other = sandbox.fresh()
    other.ready_to_train()
    with required_user_code("the state_dict of the model cannot be loaded: {kind}: {message}"):
        other.model.load_state_dict(copy.deepcopy(sandbox.model.state_dict()))
    trained, again, loaded = (_output(one, batches[0]) for one in (sandbox, sandbox, other))
    if not trained.shape == again.shape == loaded.shape:
        raise NotApplicable("the shape of the outputs changes from run to run")
    return Reload(
        difference=relative_change(trained, loaded),
        noise=relative_change(trained, again),
        steps=len(batches),
        attributes=tuple(_differing(sandbox.model, other.model)),
    )


@torch.no_grad()
def _output(sandbox: Sandbox, batch: Batch) -> torch.Tensor:
    seed_all(0)
    with sandbox.mode(training=False), required_user_code("the model fails in eval mode: {kind}: {message}"):
        predicted = sandbox.run(batch.clone()).predicted
    if predicted is None:
        raise NotApplicable("the model returns no tensor")
    return predicted.detach().clone()


def _differing(trained: nn.Module, loaded: nn.Module) -> Iterator[str]:
    """Name the tensors that are plain attributes of a module and differ between the two models."""
    others = dict(loaded.named_modules())
    for path, module in trained.named_modules():
        there = vars(others[path]) if path in others else {}
        for name, value in vars(module).items():
            kept = there.get(name)
            if isinstance(value, torch.Tensor) and isinstance(kept, torch.Tensor) and not torch.equal(value, kept):
                yield f"{path}.{name}".lstrip(".")


@check
def state_dict_incomplete(
    reload: Reload,
    *,
    difference: float = 1e-3,  # relative to the scale of the outputs; copies with one state agree to about 1e-6
    noises: float = 10.0,  # times the difference of two runs of one copy; our choice
) -> Iterator[Finding]:
    """A model that loads its own checkpoint predicts something else: part of its state is not in the state_dict.

    nbdebug trains a copy for a few steps, loads its `state_dict()` into another copy and compares the outputs of both
    in eval mode, with the same random seed.

    Why it matters: the model is good in the notebook in which it was trained. Everywhere else, where the checkpoint is
    loaded, what was not saved starts anew, and no error says so.

    What to try: register running statistics with `register_buffer` and trained tensors as `nn.Parameter`; leave
    `persistent=False` for what can be computed anew; reset hidden states that are kept from batch to batch.
    """
    if reload.difference <= max(difference, noises * reload.noise):
        return
    named = f", such as `{reload.attributes[0]}`" if reload.attributes else ""
    yield Finding(
        f"A copy that loads the `state_dict` after {reload.steps} training steps predicts otherwise (relative "
        f"difference {reload.difference:.2g}): part of the state is not saved{named}.",
        where=reload.attributes[0] if reload.attributes else "model",
        severity="note",
        evidence={
            "difference": reload.difference,
            "noise": reload.noise,
            "attributes": list(reload.attributes[:10]),
            "threshold": difference,
            "source": "copies with the same state agree up to rounding",
        },
        remedies=(
            Remedy("Register the state as a buffer.", 'self.register_buffer("running_mean", torch.zeros(width))'),
        ),
    )
