"""Which parameters does a gradient reach, and where does its way end?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn
from torch.nn.parameter import is_lazy

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.first_pass import require_run
from nbdebug.evidence.trial_run import TrialRun
from nbdebug.experiments.gradient_breaks import place_of_cut
from nbdebug.experiments.gradient_coverage import CallFacts, Reached, gradient_norm, watch_pass
from nbdebug.experiments.gradient_cuts import cut_of
from nbdebug.experiments.gradient_descent import small_step
from nbdebug.experiments.parameter_influence import changes_its_layer, influence_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["GradientReach", "ParameterReach", "ReachCut", "gradient_reach"]


@dataclass(frozen=True)
class ParameterReach:
    """One parameter: whether a gradient comes to it, in any of several batches, and what its layer is.

    `gradients` holds one norm for each batch, None where none came. `wakes` is whether a gradient that was exactly
    zero became another one within a few steps. `influence` is the relative change of the answer when the values are
    replaced, measured only for parameters without a gradient. `owner` is the path of the module that holds it.
    """

    name: str
    owner: str
    shape: tuple[int, ...]
    requires_grad: bool
    in_optimizer: bool
    gradients: tuple[float | None, ...] = ()
    wakes: bool = False
    influence: float | None = None
    is_copy: bool = False  # a slowly moving copy of a parameter that is trained
    calls: int = 0  # how often its module was called, over all batches
    position: int = -1  # where its module stands in the order of the calls
    fed_by_trained: bool = False  # whether trained parameters lie before its module
    beside_trained: bool = False  # whether what trained weights give is added to what its module gives
    is_lookup: bool = False  # whether its module turns integers into vectors
    shifts_layer: bool = False  # whether what its module gives depends on it, though the answer does not
    is_optional: bool = False  # whether the program uses only a part of a library's module, and not this one
    conditional: bool = False  # whether modules of the same kind beside it come and go from batch to batch

    @property
    def size(self) -> int:
        """The number of values."""
        product = 1
        for length in self.shape:
            product *= length
        return product

    @property
    def is_weight(self) -> bool:
        """Whether this is a matrix or a kernel, and not a bias, a scale or a number."""
        return len(self.shape) >= 2 and not self.is_lookup

    @property
    def is_reached(self) -> bool:
        """Whether a gradient other than zero came in any batch, or after a few steps."""
        return self.wakes or any(norm is not None and norm != 0 for norm in self.gradients)

    @property
    def is_cut(self) -> bool:
        """Whether no gradient came at all, not even zeros."""
        return all(norm is None for norm in self.gradients)


@dataclass(frozen=True)
class ReachCut:
    """A place where the way of the gradient ends: behind one module and, where it is known, before another."""

    after: str
    before: str
    parameters: tuple[str, ...]
    inside: bool = False  # the module itself gives an output without a gradient
    by: str = ""  # the operation that ends the gradient, where it was found


@dataclass(frozen=True)
class GradientReach:
    """Which parameters a gradient reaches, and where it is cut off."""

    parameters: tuple[ParameterReach, ...]
    cuts: tuple[ReachCut, ...]
    batches: int
    loss: float
    loss_has_gradient: bool
    output_has_gradient: bool
    optimizer_given: bool
    is_watched: bool = False  # in a real training, in which no value is replaced; then `batches` counts steps

    @property
    def trainable(self) -> tuple[ParameterReach, ...]:
        """The parameters that ask for a gradient."""
        return tuple(p for p in self.parameters if p.requires_grad)


BATCHES = 4  # a gate, an expert or a branch may rest in one batch
STEPS = 5  # a gradient that is zero because of a zero start comes within a step for each layer behind it
GROUPS = 16  # modules whose influence is measured one by one


@probe
def gradient_reach(sandbox: Sandbox, trial: TrialRun, control: Control) -> GradientReach:
    """Run several batches forward and backward and trace the gradient to every parameter."""
    require_run(trial)
    sandbox.ready_to_train()
    named = _parameters(sandbox)
    batches, seen = sandbox.batches(BATCHES), Reached()
    for index, batch in enumerate(batches):
        control.progress(index / (len(batches) + 2), "tracing the gradient")
        watch_pass(sandbox, batch, named, seen, keep=index == 0)
    silent = [n for n, p in named.items() if p.requires_grad and not any(seen.norms[n])]
    waking = _wakes(sandbox, batches, {n: named[n] for n in silent if any(v is not None for v in seen.norms[n])})
    silent = [name for name in silent if name not in waking]
    influences, copies = _influences(sandbox, batches[0], named, silent, seen), _copies(named, silent, seen)
    held = {id(p) for group in sandbox.optimizer.param_groups for p in group["params"]}
    facts = CallFacts(sandbox, seen)
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
                shifts_layer=influences.get(name) == 0.0 and _shifts(sandbox, batches[0], name, parameter),
                **facts.of(_owner(name)),
            )
            for name, parameter in named.items()
        ),
        cuts=_named(sandbox, batches[0], named, _cuts(seen, [n for n in silent if (influences.get(n) or 0.0) > 0])),
        batches=len(batches),
        loss=seen.loss,
        loss_has_gradient=seen.loss_has_gradient,
        output_has_gradient=seen.output_has_gradient,
        optimizer_given=not sandbox.owns_optimizer,
    )


def _parameters(sandbox: Sandbox) -> dict[str, nn.Parameter]:
    if any(is_lazy(p) for p in sandbox.model.parameters()):
        sandbox.run(sandbox.batch())  # a lazy model learns its shapes from its first batch
    named = dict(sandbox.model.named_parameters())
    if not named:
        raise NotApplicable("the model has no parameters")
    return named


def _owner(name: str) -> str:
    path = name.split(".parametrizations.")[0] if ".parametrizations." in name else name.rpartition(".")[0]
    return path or "model"


def _wakes(sandbox: Sandbox, batches: list[Batch], zero: dict[str, nn.Parameter]) -> set[str]:
    """Take a few small steps and see which of the gradients that were exactly zero come to life."""
    woken: set[str] = set()
    for step in range(STEPS):
        if len(woken) == len(zero):
            break
        small_step(sandbox, batches[step % len(batches)])
        woken |= {n for n, p in zero.items() if p.grad is not None and gradient_norm(p.grad) != 0}
    return woken


def _influences(
    sandbox: Sandbox, batch: Batch, named: dict[str, nn.Parameter], silent: list[str], seen: Reached
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
                value = influence_of(sandbox, batch, [named[n] for n in part], on_loss_alone=not is_cut)
                found.update(dict.fromkeys(part, value))
    return found


def _shifts(sandbox: Sandbox, batch: Batch, name: str, parameter: nn.Parameter) -> bool:
    return _owner(name) != "model" and changes_its_layer(sandbox, batch, _owner(name), [parameter])


def _copies(named: dict[str, nn.Parameter], silent: list[str], seen: Reached) -> set[str]:
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


def _named(
    sandbox: Sandbox, batch: Batch, named: dict[str, nn.Parameter], cuts: tuple[ReachCut, ...]
) -> tuple[ReachCut, ...]:
    """Add the operation that ends the gradient to each place."""
    if sandbox.train_step is not None and sandbox.loss_fn is None and sandbox.compute_loss is None:
        return cuts
    found = [cut_of(sandbox, batch, [named[name] for name in cut.parameters]) for cut in cuts]
    return tuple(replace(cut, by=op.op if op is not None else "") for cut, op in zip(cuts, found, strict=True))


def _cuts(seen: Reached, silent: list[str]) -> tuple[ReachCut, ...]:
    """Place every parameter whose gradient is cut off, and give the places with their parameters."""
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for name in silent:
        groups.setdefault(place_of_cut(seen.calls, seen.reached, _owner(name)), []).append(name)
    return tuple(ReachCut(after, before, tuple(names), inside) for (after, before, inside), names in groups.items())
