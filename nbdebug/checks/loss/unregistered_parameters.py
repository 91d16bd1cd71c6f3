"""Layers or tensors are not registered as parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.created_parameters import Created, created_parameters
from nbdebug.experiments.reachable_tensors import hidden_tensors
from nbdebug.experiments.reached_parts import reached_parts
from nbdebug.sandbox import Sandbox
from nbdebug.setup.nested import tensors_in

__all__ = ["HiddenParameter", "HiddenParameters", "hidden_parameters", "unregistered_parameters"]


@dataclass(frozen=True)
class HiddenParameter:
    """A tensor that takes part in the training graph but is no parameter of the model.

    `place` is the attribute in which it hides (`blocks`), `path` the whole way to it (`blocks[0].weight`).
    """

    place: str
    path: str
    shape: tuple[int, ...]
    gradient: float
    in_optimizer: bool
    container: str


@dataclass(frozen=True)
class HiddenParameters:
    """Tensors that receive a gradient and stand in no list of parameters.

    `strangers` counts tensors of that kind which are reachable from neither the model nor the loss: those of another
    network that the loss calls, or global ones. `created` are those of layers that the program makes while it runs, and
    `again` says that every run makes new ones.
    """

    of_model: tuple[HiddenParameter, ...]
    of_loss: tuple[HiddenParameter, ...]
    strangers: int
    optimizer_given: bool
    created: tuple[HiddenParameter, ...] = ()
    again: bool = False


BATCHES = 2
NODES = 200_000  # of one graph that are looked at

Found = list[tuple[str, str, str, torch.Tensor]]


@probe
def hidden_parameters(sandbox: Sandbox, trial: TrialRun) -> HiddenParameters:
    """Search the autograd graph of the loss for unregistered parameters."""
    require_run(trial)
    sandbox.ready_to_train()
    of_model, of_loss = list(hidden_tensors(sandbox.model)), _of_loss(sandbox.loss_fn)
    candidates = [tensor for *_, tensor in (*of_model, *of_loss)]
    norms = [0.0] * len(candidates)
    known = {id(t) for t in (*sandbox.model.parameters(), *candidates)}
    strangers, created = set[int](), list[Created]()
    for batch in sandbox.batches(BATCHES):
        with created_parameters(sandbox.model) as new:
            loss = sandbox.run(batch).loss
        if not isinstance(loss, torch.Tensor) or not loss.requires_grad or loss.numel() != 1:
            raise NotApplicable("the loss has no gradient")
        given = {id(t) for t in tensors_in(batch.raw)}
        leaves = {id(leaf) for leaf in _leaves(loss)} - known - given
        created.append({key: new[key] for key in leaves & set(new)})
        strangers |= leaves - set(new)
        if candidates:
            gradients = torch.autograd.grad(loss, candidates, allow_unused=True)
            norms = [
                n + float(g.to_dense().norm()) if g is not None else n for n, g in zip(norms, gradients, strict=True)
            ]
    optimizers = [sandbox.optimizer, *reached_parts(sandbox).optimizers.values()]
    held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    facts = [_fact(found, norm, held) for found, norm in zip((*of_model, *of_loss), norms, strict=True)]
    fresh = [fact for fact in created if fact]
    return HiddenParameters(
        of_model=tuple(fact for fact in facts[: len(of_model)] if fact.gradient > 0),
        of_loss=tuple(fact for fact in facts[len(of_model) :] if fact.gradient > 0),
        strangers=len(strangers - held),
        optimizer_given=not sandbox.owns_optimizer,
        created=tuple(
            HiddenParameter(path or "model", f"{path or 'model'}: {kind}", tuple(t.shape), 1.0, key in held, kind)
            for key, (path, kind, t) in (fresh[0].items() if fresh else ())
        ),
        again=len(fresh) > 1,
    )


def _of_loss(loss_fn: Any) -> Found:
    if not isinstance(loss_fn, nn.Module):
        return []
    own = [
        (f"loss_fn.{name}", f"loss_fn.{name}", type(loss_fn).__name__, p)
        for name, p in loss_fn.named_parameters()
        if p.requires_grad
    ]
    return own + [(f"loss_fn.{a}", f"loss_fn.{b}", kind, t) for a, b, kind, t in hidden_tensors(loss_fn)]


def _fact(found: tuple[str, str, str, torch.Tensor], norm: float, held: set[int]) -> HiddenParameter:
    place, path, kind, tensor = found
    return HiddenParameter(place, path, tuple(tensor.shape), norm, id(tensor) in held, kind)


def _leaves(loss: torch.Tensor) -> list[torch.Tensor]:
    """Return the leaves of a graph: the tensors into which its backward would accumulate."""
    stack: list[Any] = [loss.grad_fn]
    seen: set[Any] = set()
    found: list[torch.Tensor] = []
    while stack and len(seen) < NODES:
        node: Any = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        stack.extend(following for following, _ in node.next_functions)
    return found


SOURCE = "37 reasons, 23: an optimizer only updates what model.parameters() lists"


@check(explains=("cannot-overfit-batch", "nondeterministic-eval", "train-eval-gap", "worse-than-baseline"))
def unregistered_parameters(hidden: HiddenParameters) -> Iterator[Finding]:
    """Layers or tensors that the forward pass uses are not registered as parameters.

    nbdebug walks the autograd graph of the loss to its leaf tensors, and looks for those that `model.parameters()` does
    not list: layers in plain lists, dicts and tuples, tensors in plain attributes, and layers that are made while the
    forward pass runs.

    Why it matters: the optimizer never updates them, `to(device)` does not move them, `state_dict` does not save them.
    They keep their initial values, and nothing warns.

    What to try: hold layers in `nn.ModuleList` or `nn.ModuleDict`, tensors in `nn.Parameter` or `nn.ParameterList`, and
    pass the parameters of the loss to the optimizer as well.
    """
    yield from _created(hidden)
    groups: dict[str, list[HiddenParameter]] = {}
    for fact in hidden.of_model:
        groups.setdefault(fact.place, []).append(fact)
    for place, facts in groups.items():
        learned = all(fact.in_optimizer for fact in facts)
        yield _finding(
            place,
            facts,
            f"{len(facts)} tensor{'s' * (len(facts) > 1)} in `{place}` (a {facts[0].container}) "
            f"receive{'s' * (len(facts) == 1)} a gradient but {'are' if len(facts) > 1 else 'is'} not in "
            f"`model.parameters()`" + ("; passed to the optimizer explicitly." if learned else ", so never trained."),
            "note" if learned else "bug",
        )
    lone = [fact for fact in hidden.of_loss if not fact.in_optimizer]
    if lone and hidden.optimizer_given:
        says = f"The loss has {len(lone)} trainable tensors (`{lone[0].path}`) that are not in the optimizer."
        yield _finding(lone[0].place, lone, says, "suspect")


def _created(hidden: HiddenParameters) -> Iterator[Finding]:
    """Return layers that every run makes anew, or the first one, when the optimizer already exists."""
    lost = [fact for fact in hidden.created if not fact.in_optimizer]
    if not lost or not (hidden.again or hidden.optimizer_given):
        return
    kinds = ", ".join(dict.fromkeys(f"`{fact.container}`" for fact in lost))
    when = (
        "every forward pass makes it anew, with new random weights"
        if hidden.again
        else "the first forward pass makes it, after the optimizer was given its parameters"
    )
    says = f"A layer ({kinds}, {len(lost)} parameters) is created in the forward pass of `{lost[0].place}`: {when}."
    remedy = Remedy(
        "Create layers in `__init__`.", "self.layer = nn.LazyLinear(48)  # for a size that is not known yet"
    )
    yield _finding(lost[0].place, lost, says, "bug", remedy)


def _finding(
    place: str, facts: list[HiddenParameter], says: str, severity: str, remedy: Remedy | None = None
) -> Finding:
    patch = Patch("train-loss" if place.startswith("loss_fn.") else "register-hidden")
    owner = place.rpartition(".")[2]
    wrap = {
        "list": f"self.{owner} = nn.ModuleList(self.{owner})",
        "tuple": f"self.{owner} = nn.ModuleList(self.{owner})",
        "dict": f"self.{owner} = nn.ModuleDict(self.{owner})",
        "Tensor": f"self.{owner} = nn.Parameter(self.{owner})",
    }.get(facts[0].container, "")
    if place.startswith("loss_fn."):
        wrap = "optimizer = Adam([*model.parameters(), *loss_fn.parameters()])"
    return Finding(
        says,
        where=place,
        severity=severity,  # type: ignore[arg-type]
        evidence={
            "paths": [fact.path for fact in facts],
            "shapes": [fact.shape for fact in facts],
            "gradient norms": [fact.gradient for fact in facts],
            "threshold": "model.parameters() lists every leaf of the graph",
            "source": SOURCE,
        },
        remedies=(remedy or Remedy("Register the layers or tensors as parameters.", wrap, patch),),
    )
