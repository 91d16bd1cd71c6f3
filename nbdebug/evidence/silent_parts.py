"""Networks of a training step that an optimizer holds and that no gradient reaches."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.parameter_gradients import GradientReach
from nbdebug.evidence.step_events import NetworkFacts, ParameterFlow, StepEvents
from nbdebug.experiments.gradient_cuts import cut_of, influence_on_loss
from nbdebug.experiments.reached_parts import reached_parts
from nbdebug.sandbox import Sandbox

__all__ = ["SilentPart", "SilentParts", "silent_parts"]


@dataclass(frozen=True)
class SilentPart:
    """Parameters of one network that get no gradient: what changing them does to the loss, and which op is between."""

    network: str
    parameters: tuple[str, ...]
    influence: float
    by: str
    module: str
    is_zero: bool
    fresh: bool


@dataclass(frozen=True)
class SilentParts:
    """All such parts of one training step, or of a loss with several networks.

    `reached` are the parameters of the model that get a gradient in the step.
    """

    parts: tuple[SilentPart, ...]
    calls: int
    reached: tuple[str, ...] = ()


@probe
def silent_parts(sandbox: Sandbox, events: StepEvents, reach: GradientReach | None) -> SilentParts:
    """Find networks that affect the loss of your training step but get no gradient."""
    if not any(p.calls_with_gradient for network in events.networks for p in network.parameters):
        raise NotApplicable("no gradient reaches any network; see loss-not-differentiable")
    sandbox.ready_to_train()
    networks = reached_parts(sandbox).networks
    parts = [
        _part(sandbox, networks[facts.name], facts, silent)
        for facts in events.networks
        if facts.name in networks and not (facts.name == "model" and reach is not None)
        for silent in [_silent_in(facts)]
        if silent
    ]
    own = [p for facts in events.networks if facts.name == "model" for p in facts.parameters]
    return SilentParts(tuple(parts), events.calls, tuple(p.name for p in own if p.calls_with_gradient))


def _silent_in(facts: NetworkFacts) -> list[ParameterFlow]:
    """Return the parameters without a gradient, but not those that cancel in a layer that trains."""
    trained = {_layer_of(flow) for flow in facts.parameters if flow.calls_with_gradient}
    silent = [flow for flow in facts.parameters if _is_silent(flow)]
    return [flow for flow in silent if not (flow.came_as_zero and _layer_of(flow) in trained)]


def _layer_of(flow: ParameterFlow) -> str:
    """Return the layer that a parameter belongs to, also where the parameter is parametrized."""
    name = flow.name.removeprefix("parametrizations.").partition(".parametrizations.")
    return name[0] if name[1] else flow.name.rpartition(".")[0]


def _is_silent(flow: ParameterFlow) -> bool:
    return flow.requires_grad and flow.held and not flow.calls_with_gradient and not flow.moved


def _part(sandbox: Sandbox, network: nn.Module, facts: NetworkFacts, silent: list[ParameterFlow]) -> SilentPart:
    names = tuple(flow.name for flow in silent)
    own = dict(network.named_parameters())
    parameters = [own[name] for name in names if name in own]
    batch = sandbox.batch()
    influence = influence_on_loss(sandbox, batch, parameters)
    cut = cut_of(sandbox, batch, parameters) if influence > 0 else None
    return SilentPart(
        facts.name,
        names,
        influence,
        cut.op if cut is not None else "",
        cut.module if cut is not None else "",
        any(flow.came_as_zero for flow in silent),
        facts.fresh,
    )
