"""The exchanges: one ingredient of the training at a time is exchanged for the textbook's, on a copy.

Each belongs to a check, which names the cause if the exchange rescues the training. Those that cannot change anything
here (void) or have no reason to (immaterial) are left out: that is where much of the specificity comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from nbdebug.core.finding import Finding
from nbdebug.core.remedy import Patch, Remedy, in_code
from nbdebug.core.text import in_sentence
from nbdebug.engine.differential.exchange import REPAIR, Exchange
from nbdebug.engine.differential.exchange import one as _one
from nbdebug.engine.differential.program import own_step, wiring
from nbdebug.engine.differential.scales import scales, start
from nbdebug.errors import NbdebugError
from nbdebug.experiments.trial_training import HeldOut
from nbdebug.sandbox import Sandbox
from nbdebug.setup.loss import infer_loss

__all__ = ["Exchange", "exchanges_for", "hypotheses"]

MOST_ALTERNATIVES = 3  # fixes of one finding that are tried


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
        Exchange(
            _name(check, remedies[0], alone=(check, 1) not in found),
            check,
            first[check].says,
            first[check].where,
            tuple(remedies),
            is_hypothesis=True,
            is_contradiction=first[check].is_contradiction,
        )
        for (check, _), remedies in found.items()
    ]


def _name(check: str, remedy: Remedy, *, alone: bool) -> str:
    """Return what an alternative is called: where a finding has several, by what each does."""
    return f"{check} fixed" if alone else f"{check} fixed ({in_sentence(remedy.says)})"


def exchanges_for(sandbox: Sandbox, data: HeldOut) -> list[Exchange]:
    """Return the exchanges that are neither void nor immaterial here, in the order in which causes are named."""
    found: list[Exchange] = [*wiring(sandbox), *own_step(sandbox), *_regularization(sandbox), *_head(sandbox)]
    found += [*scales(data), *start(sandbox), *_rates(), *_network(sandbox), *_batches(data)]
    return found + list(_repairs())


def _regularization(sandbox: Sandbox) -> Iterator[Exchange]:
    if sandbox.compute_loss is not None:
        yield _one(
            "the usual loss alone", "loss-terms-unbalanced", "Another term of compute_loss outweighs the error",
            "compute_loss",
            ("Train with the error alone, then add one term at a time.", f"loss = {_usual_loss(sandbox)[1]}",
             Patch("plain-loss")),
        )  # fmt: skip
    code = "for module in model.modules():\n    if isinstance(module, nn.Dropout):\n        module.p = 0.1"
    yield _one(
        "no dropout", "excessive-dropout", "Dropout removes too much of the signal", "model",
        ("Lower the dropout probability.", code, Patch("limit-dropout", {"share": 0.0})), is_general=True,
    )  # fmt: skip
    if any(group.get("weight_decay") for group in sandbox.optimizer.param_groups):
        setting = Patch("set-optimizer-option", {"option": "weight_decay", "value": 0.0})
        yield _one(
            "no weight decay", "excessive-weight-decay", "The weight decay is too strong", "optimizer",
            ("Lower the weight decay.", _in_groups('group["weight_decay"] = 0.0'), setting), is_general=True,
        )  # fmt: skip


def _in_groups(line: str) -> str:
    return f"for group in optimizer.param_groups:\n    {line}"


def _head(sandbox: Sandbox) -> Iterator[Exchange]:
    loss, _ = _usual_loss(sandbox)
    drop = ("Remove the last activation.", _without_activation(sandbox), Patch("drop-last-activation"))
    usual = ("Train with the loss that fits outputs and targets.", f"loss_fn = {loss}")
    fixes = (drop, (*usual, Patch("replace-loss", {"loss": "usual"})))
    cause, check = "The last layer does not fit the loss and the targets", "wrong-loss-for-task"
    if _predicts_numbers(sandbox):  # an activation that limits outputs is another cause than one before cross-entropy
        yield _one("no last activation", "clamped-output", "The last activation limits the outputs", "model", fixes[0])
    else:
        yield _one("no last activation", check, cause, "model", fixes[0])
    yield _one("the usual loss", check, cause, "loss_fn", fixes[1])
    yield _one("no last activation and the usual loss", check, cause, "loss_fn", *fixes)


def _predicts_numbers(sandbox: Sandbox) -> bool:
    """Whether the targets are real numbers, of which some lie outside of 0 to 1."""
    target = sandbox.batch().target
    if not isinstance(target, torch.Tensor) or not target.is_floating_point() or target.numel() == 0:
        return False
    return not bool(((target >= 0) & (target <= 1)).all())


def _without_activation(sandbox: Sandbox) -> str:
    """Return the code that leaves out the activation at the end, where a module applies it."""
    path, last = list(sandbox.model.named_modules())[-1]
    if path and type(last).__module__ == "torch.nn.modules.activation":
        return f"{in_code(path)} = nn.Identity()"
    return "# In forward, return the logits: the value before the last sigmoid or softmax."


@torch.no_grad()
def _usual_loss(sandbox: Sandbox) -> tuple[str, str]:
    """Return the code of the loss that outputs and targets suggest, and of a call of it."""
    try:
        with sandbox.mode(training=False):
            batch = sandbox.batch()
            name = infer_loss(sandbox.forward(batch), batch.target, batch.has_target).name
    except (
        NbdebugError,
        RuntimeError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
    ):  # only the user's step runs it
        return "nn.CrossEntropyLoss()", "loss_fn(model(x), y)"
    code = f"nn.{name}()" if hasattr(nn, name) else "nn.MSELoss()"
    return code, f"{code}(model(x), y)"


def _rates() -> Iterator[Exchange]:
    for factor in (3, 10, 30, 100):
        patch = Patch("multiply-learning-rate", {"factor": 1 / factor})
        yield _one(
            f"learning rate ÷ {factor}", "learning-rate-too-high", "The learning rate is too high", "optimizer",
            (f"Divide the learning rate by {factor}.", _in_groups(f'group["lr"] /= {factor}'), patch), is_general=True,
        )  # fmt: skip
    for factor in (3, 10, 30, 100, 1000, 10_000, 100_000):
        patch = Patch("multiply-learning-rate", {"factor": factor})
        yield _one(
            f"learning rate × {factor}", "learning-rate-too-low", "The learning rate is too low", "optimizer",
            (f"Multiply the learning rate by {factor}.", _in_groups(f'group["lr"] *= {factor}'), patch),
            is_general=True,
        )  # fmt: skip


def _network(sandbox: Sandbox) -> Iterator[Exchange]:
    relu = ("Replace sigmoid and tanh in hidden layers with ReLU.", "nn.ReLU()", Patch("relu-activations"))
    cause = "The gradient vanishes in saturating hidden activations"
    yield _one("ReLU in hidden layers", "vanishing-gradients", cause, "model", relu, is_general=True)
    kind = type(sandbox.optimizer).__name__
    code = f'optimizer = torch.optim.{kind}(model.parameters(), lr=optimizer.param_groups[0]["lr"])'
    fix = ("Use the optimizer's default options.", code, Patch("default-optimizer-options"))
    cause = "An option of the optimizer is unusual"
    yield _one("the optimizer's default options", "unusual-optimizer", cause, "optimizer", fix, is_general=True)


def _batches(data: HeldOut) -> Iterator[Exchange]:
    size = data.train[0].size
    if size < 8 or size > 512:
        code, patch = "DataLoader(dataset, batch_size=32)", Patch("reload-batches", {"size": 32})
        yield _one(
            "batches of 32 samples", "extreme-batch-size", f"The batch size is {size}", "loader",
            ("Use batches of 32 samples.", code, patch), is_general=True,
        )  # fmt: skip


def _repairs() -> Iterator[Exchange]:
    adam = ("Train with Adam.", "torch.optim.Adam(model.parameters(), lr=1e-3)", Patch("textbook-optimizer"))
    yield _one("Adam with a learning rate of 0.001", REPAIR, "", "optimizer", adam)
    norm = ("Add normalization layers between hidden layers.", "nn.BatchNorm1d(width)", Patch("normalize-between"))
    yield _one("normalization layers", REPAIR, "", "model", norm)
    residual = ("Add residual connections.", "x = x + layer(x)", Patch("shortcuts"))
    yield _one("residual connections", REPAIR, "", "model", residual)
    clip = ("Clip the gradient norm.", "nn.utils.clip_grad_norm_(model.parameters(), 1.0)", Patch("clip-gradients"))
    yield _one("clipped gradients", REPAIR, "", "optimizer", clip)
