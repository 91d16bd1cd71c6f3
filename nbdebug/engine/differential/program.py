"""Exchanges of what the user's program does around the network: its wiring, its training step, its sampler."""

from __future__ import annotations

from collections.abc import Iterator

from torch.utils.data import DataLoader, RandomSampler

from nbdebug.core.remedy import Patch
from nbdebug.engine.differential.exchange import Exchange
from nbdebug.engine.differential.exchange import one as _one
from nbdebug.experiments.reached_parts import reached_parts
from nbdebug.experiments.step_facts import StepFacts, step_facts
from nbdebug.sandbox import Sandbox
from nbdebug.setup.dataset_origin import read_like

__all__ = ["own_step", "wiring"]


def wiring(sandbox: Sandbox) -> Iterator[Exchange]:
    """Return what trains every parameter: in the optimizer, at a rate above 0, unfrozen."""
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
    idle = [g for g, group in enumerate(sandbox.optimizer.param_groups) if not float(group["lr"]) > 0]
    if idle and len(idle) < len(sandbox.optimizer.param_groups):
        place = f"optimizer.param_groups[{idle[0]}]"
        fix = ("Give every group a learning rate.", f'{place}["lr"] = 1e-3')
        yield _one(
            "a rate for every group", "unusual-optimizer", f"The learning rate of {len(idle)} parameter groups is 0",
            place, (*fix, Patch("raise-zero-rates")),
        )  # fmt: skip
    if frozen:
        fix = ("Set requires_grad to True.", "for p in model.parameters():\n    p.requires_grad_(True)")
        yield _one(
            "no frozen parameters", "frozen-parameters", f"{len(frozen)} parameters are frozen", frozen[0],
            (*fix, Patch("unfreeze", {"parameters": frozen})),
        )  # fmt: skip


def own_step(sandbox: Sandbox) -> Iterator[Exchange]:
    """Exchange the parts of the user's own step before the whole of it, which names nothing in particular."""
    setup = sandbox.setup
    if setup.scheduler is not None or (setup.train_step is not None and reached_parts(sandbox).schedulers):
        code = "torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)"
        yield _one(
            "a constant learning rate", "schedule-reaches-zero", "The schedule takes the learning rate away too early",
            "train_step" if setup.scheduler is None else "scheduler",
            ("Step the scheduler once per epoch, or make the schedule longer.", code, Patch("constant-rate")),
        )  # fmt: skip
    facts = step_facts(sandbox) if setup.train_step is not None else StepFacts()
    if facts.keeps_gradients:
        yield _one(
            "cleared gradients", "accumulated-gradients", "The gradients of earlier steps are not cleared",
            "train_step", ("Clear the gradients before each backward pass.", "optimizer.zero_grad()",
                           Patch("clear-gradients")),
        )  # fmt: skip
    if facts.changes_gradients:
        code = "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)"
        yield _one(
            "gradients as backward leaves them", "clipping-too-tight", "Your step clips or scales the gradients away",
            "train_step", ("Clip at a few times the typical gradient norm.", code, Patch("unclipped-gradients")),
        )  # fmt: skip
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
    if any(read_like(setup.feed, other) is not None for other in setup.feeds[1:]):
        code = "train_data.transform = val_data.transform"
        yield _one(
            "no augmentation", "destructive-augmentation", "The augmentation parts inputs and targets", "loader",
            ("Train without augmentation, then add one transform at a time.", code, Patch("read-like-validation")),
            is_general=True,
        )  # fmt: skip
    loader = setup.feed.loader
    if isinstance(loader, DataLoader) and not isinstance(getattr(loader, "sampler", None), RandomSampler):
        yield _one(
            "shuffled samples", "unshuffled-loader", "The training samples are not shuffled", "loader",
            ("Shuffle the training data.", "DataLoader(dataset, batch_size=32, shuffle=True)", Patch("shuffle")),
            is_general=True,
        )  # fmt: skip
