"""Which parameters does a gradient reach, and where does its way end?"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from nbdebug.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.evidence import GradientReach, ParameterReach, ReachCut, TrialRun
from nbdebug.probes.first_pass import require_run
from nbdebug.registry import probe
from nbdebug.subject import Batch
from nbdebug.twin import Twin
from nbdebug.twin.cuts import place_of_cut
from nbdebug.twin.influence import influence_of
from nbdebug.twin.small_steps import small_step
from nbdebug.twin.trace import Call, Trace, owned_matrices, traced

__all__ = ["gradient_reach"]

BATCHES = 4  # a gate, an expert or a branch may rest in one batch
STEPS = 5  # a gradient that is zero because of a zero start comes within a step for each layer behind it
GROUPS = 16  # modules whose influence is measured one by one


@dataclass
class _Seen:
    """What several passes showed about gradients, parameters and modules."""

    norms: dict[str, list[float | None]] = field(default_factory=dict)
    called: list[Counter[str]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    reached: set[int] = field(default_factory=set)  # places in `calls` to which a gradient other than zero came
    prints: dict[int, tuple[Any, float]] = field(default_factory=dict)  # the shape and the direction of that gradient
    loss: float = 0.0
    loss_has_gradient: bool = False
    output_has_gradient: bool = False


@probe
def gradient_reach(twin: Twin, trial: TrialRun, control: Control) -> GradientReach:
    """Run several batches forward and back and follow the gradient to every parameter."""
    require_run(trial)
    twin.ready_to_train()
    named = _parameters(twin)
    batches, seen = twin.batches(BATCHES), _Seen()
    for index, batch in enumerate(batches):
        control.progress(index / (len(batches) + 2), "following the gradient")
        _pass(twin, batch, named, seen, keep=index == 0)
    silent = [n for n, p in named.items() if p.requires_grad and not any(seen.norms[n])]
    waking = _wakes(twin, batches, {n: named[n] for n in silent if any(v is not None for v in seen.norms[n])})
    silent = [name for name in silent if name not in waking]
    influences, copies = _influences(twin, batches[0], named, silent, seen), _copies(named, silent, seen)
    held = {id(p) for group in twin.optimizer.param_groups for p in group["params"]}
    facts = _ModuleFacts(twin, seen)
    return GradientReach(
        parameters=tuple(
            ParameterReach(
                name=name,
                owner=_owner(name),
                shape=tuple(parameter.shape),
                requires_grad=parameter.requires_grad,
                in_optimizer=id(parameter) in held,
                gradients=tuple(seen.norms[name]),
                wakes=name in waking,
                influence=influences.get(name),
                is_copy=name in copies,
                **facts.of(_owner(name)),
            )
            for name, parameter in named.items()
        ),
        cuts=_cuts(seen, [n for n in silent if (influences.get(n) or 0.0) > 0]),
        batches=len(batches),
        loss=seen.loss,
        loss_has_gradient=seen.loss_has_gradient,
        output_has_gradient=seen.output_has_gradient,
        optimizer_given=not twin.owns_optimizer,
    )


def _parameters(twin: Twin) -> dict[str, nn.Parameter]:
    if any(isinstance(p, nn.UninitializedParameter) for p in twin.model.parameters()):
        twin.run(twin.batch())  # a lazy model learns its shapes from its first batch
    named = dict(twin.model.named_parameters())
    if not named:
        raise NotApplicable("the model has no parameters")
    return named


def _owner(name: str) -> str:
    path = name.split(".parametrizations.")[0] if ".parametrizations." in name else name.rpartition(".")[0]
    return path or "model"


def _pass(twin: Twin, batch: Batch, named: dict[str, nn.Parameter], seen: _Seen, *, keep: bool) -> None:
    for parameter in named.values():
        parameter.grad = None
    trace = traced(twin, batch)
    assert trace.outcome is not None
    loss, predicted = trace.outcome.loss, trace.outcome.predicted
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise NotApplicable("the loss is not one number")
    prints: dict[int, tuple[Any, float]] = {}
    _listen(trace, prints)
    if loss.requires_grad:
        loss.backward()
    for name, parameter in named.items():
        seen.norms.setdefault(name, []).append(_norm(parameter.grad) if parameter.grad is not None else None)
    seen.called.append(Counter(call.path for call in trace.calls))
    if keep:
        seen.calls, seen.reached, seen.prints, seen.loss = trace.calls, set(prints), prints, float(loss.detach())
        seen.loss_has_gradient = loss.requires_grad
        seen.output_has_gradient = predicted is None or predicted.requires_grad


def _norm(gradient: torch.Tensor) -> float:
    values = gradient.detach().coalesce().values() if gradient.is_sparse else gradient.detach()
    wide = torch.complex128 if values.is_complex() else torch.float64
    return float(torch.linalg.vector_norm(values.to(wide)))


def _listen(trace: Trace, prints: dict[int, tuple[Any, float]]) -> None:
    """Note the calls to whose output a gradient other than zero comes, and its direction.

    Terms of a sum receive the same gradient, but for a factor: so an adapter is known by what it is added to.
    """
    for index, call in enumerate(trace.calls):
        if call.output is not None and call.output.requires_grad:

            def hear(gradient: torch.Tensor, index: int = index) -> None:
                norm = _norm(gradient)
                if norm != 0:
                    prints[index] = tuple(gradient.shape), _direction(gradient) / norm

            call.output.register_hook(hear)


def _wakes(twin: Twin, batches: list[Batch], zero: dict[str, nn.Parameter]) -> set[str]:
    """Take a few small steps and see which of the gradients that were exactly zero come to life."""
    woken: set[str] = set()
    for step in range(STEPS):
        if len(woken) == len(zero):
            break
        small_step(twin, batches[step % len(batches)])
        woken |= {n for n, p in zero.items() if p.grad is not None and _norm(p.grad) != 0}
    return woken


def _influences(
    twin: Twin, batch: Batch, named: dict[str, nn.Parameter], silent: list[str], seen: _Seen
) -> dict[str, float]:
    """Measure how much the answer depends on the parameters without a gradient, module by module.

    A gradient that comes and is exactly zero may be the truth: a distance between two outputs does not feel a bias
    that both have. So only the loss is asked about those.
    """
    cut = {name for name in silent if all(norm is None for norm in seen.norms[name])}
    owners = list(dict.fromkeys(_owner(name) for name in silent))
    if len(owners) > GROUPS:  # too many to try one by one: the children of the root
        owners = list(dict.fromkeys(name.split(".")[0] for name in silent))
    found: dict[str, float] = {}
    for owner in owners:
        group = [n for n in silent if _owner(n) == owner or n.startswith(f"{owner}.")]
        for is_cut in (True, False):
            part = [n for n in group if n not in found and (n in cut) is is_cut]
            if part:
                value = influence_of(twin, batch, [named[n] for n in part], on_loss_alone=not is_cut)
                found.update(dict.fromkeys(part, value))
    return found


def _copies(named: dict[str, nn.Parameter], silent: list[str], seen: _Seen) -> set[str]:
    """Find parameters that resemble a trained one of the same ending, as a target network's do."""
    copies = set()
    trained = [name for name in named if any(seen.norms[name])]
    for name in silent:
        tail = name.split(".", 1)[-1]
        for other in trained:
            if other.split(".", 1)[-1] == tail and named[other].shape == named[name].shape:
                a, b = named[name].detach().flatten().double(), named[other].detach().flatten().double()
                if float(nn.functional.cosine_similarity(a, b, dim=0)) > 0.5 or bool((a == b).all()):
                    copies.add(name)
    return copies


class _ModuleFacts:
    """What the calls say about a module: how often, in which place, fed by what."""

    def __init__(self, twin: Twin, seen: _Seen) -> None:
        self.seen = seen
        self.first: dict[str, Call] = {}
        for call in sorted(seen.calls, key=lambda call: call.began):
            self.first.setdefault(call.path, call)
        self.kinds = {path or "model": type(module).__name__ for path, module in twin.model.named_modules()}

    def of(self, path: str) -> dict[str, Any]:
        """Give the fields of a `ParameterReach` that are about its module."""
        call = self.first.get(path)
        return {
            "calls": sum(counts[path] for counts in self.seen.called),
            "position": call.began if call is not None else -1,
            "fed_by_trained": call is not None and any(t.requires_grad for t in call.inputs),
            "beside_trained": call is not None and self._has_company(path, call),
            "is_lookup": call is not None and call.is_lookup,
            "conditional": self._comes_and_goes(path),
        }

    def _has_company(self, path: str, call: Call) -> bool:
        """Whether trained weights work beside this module, as an adapter does."""
        around = self.first.get(path.rpartition(".")[0] or "model")
        if around is not None and around is not call and _learns(around):
            return True
        places = {id(other): index for index, other in enumerate(self.seen.calls)}
        own = self.seen.prints.get(places.get(id(call), -1))
        return own is not None and any(
            _learns(other) and other is not call and _same(own, self.seen.prints.get(places[id(other)]))
            for other in self.first.values()
        )

    def _comes_and_goes(self, path: str) -> bool:
        """Whether this module, or one like it in the same container, is called in some batches only."""
        parent = path.rpartition(".")[0]
        grand = parent.rpartition(".")[0]
        for other in {p for counts in self.seen.called for p in counts}:
            near = other.rpartition(".")[0] == parent or (grand and other.startswith(f"{grand}."))
            if near and self.kinds.get(other) == self.kinds.get(path):
                counts = {c[other] for c in self.seen.called}
                if len(counts) > 1:
                    return True
        return False


def _direction(gradient: torch.Tensor) -> float:
    """Project a gradient on a direction that depends on its size alone."""
    values = gradient.detach().flatten()
    if values.is_complex() or gradient.layout is not torch.strided:
        return 0.0
    waves = torch.arange(values.numel(), device=values.device, dtype=torch.float64).mul_(0.7).sin_()
    return float(values.double() @ waves)


def _same(one: tuple[Any, float], other: tuple[Any, float] | None) -> bool:
    return other is not None and one[0] == other[0] and math.isclose(one[1], other[1], rel_tol=1e-3)


def _learns(call: Call) -> bool:
    return any(weight.requires_grad for _, weight in owned_matrices(call.module))


def _cuts(seen: _Seen, silent: list[str]) -> tuple[ReachCut, ...]:
    """Place every parameter whose gradient is cut off, and give the places with their parameters."""
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for name in silent:
        groups.setdefault(place_of_cut(seen.calls, seen.reached, _owner(name)), []).append(name)
    return tuple(ReachCut(after, before, tuple(names), inside) for (after, before, inside), names in groups.items())
