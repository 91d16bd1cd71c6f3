"""Verdicts about the parameters that are trained, and those that are not."""

from __future__ import annotations

from typing import Any

from nbdebug.checks.data.blank_in_targets import CtcTargets
from nbdebug.checks.loss.layers_share_weights import SharedLayer, SharedLayers
from nbdebug.checks.loss.missing_create_graph import DerivativeTerms
from nbdebug.checks.loss.unregistered_parameters import HiddenParameter, HiddenParameters
from nbdebug.evidence.field_tables import FieldTable, FieldTables
from nbdebug.evidence.initial_weights import InitialWeights, WeightFacts
from nbdebug.evidence.optimizer_coverage import OptimizerCoverage
from nbdebug.evidence.parameter_gradients import GradientReach, ParameterReach, ReachCut
from nbdebug.evidence.silent_parts import SilentPart, SilentParts
from nbdebug.evidence.step_events import NetworkFacts
from tests.verdicts.step_events import events, flow, network, used
from tests.verdicts.table import Table, minimal


def weight(name: str, size: int = 10, **facts: Any) -> ParameterReach:
    """Return a weight that is trained, unless the facts say otherwise."""
    known = {"requires_grad": True, "in_optimizer": True, "gradients": (1.0,), "calls": 1}
    return minimal(
        ParameterReach, name=f"{name}.weight", owner=name, shape=(size, 1), position=int(name), **{**known, **facts}
    )


def reach(*parameters: ParameterReach, **facts: Any) -> GradientReach:
    """Return where gradients come to in one batch."""
    known = {"batches": 4, "loss_has_gradient": True, "output_has_gradient": True}
    return minimal(GradientReach, parameters=parameters, **{**known, **facts})


def frozen(name: str, size: int = 10, **facts: Any) -> ParameterReach:
    """Return a weight that is frozen behind a trained one."""
    return weight(name, size, requires_grad=False, gradients=(), **{"fed_by_trained": True, **facts})


def adapters(layers: int, size: int = 1000) -> GradientReach:
    """Return so many frozen layers, with a trained one before and one behind them."""
    inner = [frozen(str(index), size) for index in range(1, layers + 1)]
    return reach(weight("0"), *inner, weight(str(layers + 1)))


table = Table("frozen-parameters")
table.row("a watched training", "not applicable", reach(weight("0"), is_watched=True))
table.row("nothing is frozen", "silent", reach(weight("0"), weight("1")))
table.row("all is frozen", "bug", reach(frozen("0"), frozen("1")))
table.row("a backbone", "note", reach(frozen("0", fed_by_trained=False), weight("1")))
table.row("a layer in the middle", "suspect", reach(weight("0"), frozen("1"), weight("2")))
table.pair("adapter_layers", adapters, {2: "suspect", 3: "note"})
table.pair("frozen_share", lambda size: adapters(3, size), {6: "suspect", 8: "note"})


def lost(influence: float = 0.0, cuts: tuple[ReachCut, ...] = (), **facts: Any) -> GradientReach:
    """Return two weights, of which the first gets no gradient."""
    without = weight("0", gradients=(None,), influence=influence)
    return reach(without, weight("1"), cuts=cuts, **facts)


def zeros(steps: int) -> GradientReach:
    """Return a watched training whose first weight has a gradient of zero."""
    return reach(weight("0", gradients=(0.0,)), weight("1"), batches=steps, is_watched=True)


CUT = (ReachCut("0", "1", ("0.weight",)),)
INSIDE = (ReachCut("0", "", ("0.weight",), inside=True),)


def silent(by: str, influence: float = 0.1, fresh: bool = True) -> SilentParts:
    """Return a network in an optimizer to which no gradient comes."""
    return SilentParts((SilentPart("encoder", ("weight", "bias"), influence, by, "", False, fresh),), 6)


table = Table("untrained-parameters")
table.row("all is frozen", "not applicable", reach(frozen("0")), None)
table.row("the loss has no gradient", "not applicable", reach(weight("0", gradients=(None,))), None)
table.row("all get a gradient", "silent", reach(weight("0"), weight("1")), None)
table.row("a layer that is not called", "suspect", lost(), None)
PART = weight("0", gradients=(None,), is_optional=True)
table.row("a part of a library's module", "note", reach(PART, weight("1")), None)
table.row("a layer that the step trains", "silent", lost(), SilentParts((), 6, ("0.weight",)))
table.row("a layer with a gradient of zero", "note", reach(weight("0", gradients=(0.0,)), weight("1")), None)
table.row("a detached output", "bug", lost(0.1, INSIDE), None)
table.row("watched without a gradient", "suspect", lost(is_watched=True, batches=1), None)
table.pair("influence", lambda change: (lost(change, CUT), None), {1.1e-6: "bug", 0.9e-6: "suspect"})
table.pair("zeros", lambda steps: (zeros(steps), None), {200: "suspect", 199: "note"})
table.row("nothing can be followed", "not applicable", None, None)
table.row("cut inside of a step", "bug", None, silent("argmax"))
table.row("a trained backbone without gradients", "note", None, silent("no_grad", fresh=False))
table.row("without an effect", "silent", None, silent("argmax", influence=0.0))


def coverage(held: tuple[str, ...], missing: tuple[str, ...], **facts: Any) -> OptimizerCoverage:
    """Return which parameters an optimizer holds."""
    shapes = dict.fromkeys(sorted((*held, *missing)), (10, 1))
    return minimal(OptimizerCoverage, optimizer="Adam", held=held, missing=missing, shapes=shapes, **facts)


OUT = {"in_optimizer": False}
TRAINED = InitialWeights((minimal(WeightFacts, path="0", looks_fresh=False),), False, "")
MOVED = events(networks=(network("model", "1.weight", held=True),))
table = Table("parameters-missing-from-optimizer")
table.row("all are held", "silent", coverage(("0.weight", "1.weight"), ()), None, None, None)
table.row("none is held", "bug", coverage((), ("0.weight",)), None, None, None)
table.row("a layer", "bug", coverage(("0.weight",), ("1.weight",)), reach(weight("0"), weight("1", **OUT)), None, None)
table.row(
    "one without a gradient",
    "silent",
    coverage(("0.weight",), ("1.weight",)),
    reach(weight("0"), weight("1", gradients=(None,), **OUT)),
    None,
    None,
)
table.row(
    "a trained backbone",
    "note",
    coverage(("1.weight",), ("0.weight",)),
    reach(weight("0", **OUT), weight("1")),
    TRAINED,
    None,
)
table.row("watched, behind what is held", "suspect", coverage(("0.weight",), ("1.weight",)), None, None, None)
table.row("watched, before what is held", "note", coverage(("1.weight",), ("0.weight",)), None, None, None)
table.row("a critic", "note", coverage(("a.weight",), ("critic.weight",)), None, None, None)
table.row("replaced", "bug", coverage(("0.weight",), ("1.weight",), strays=((10, 1),)), None, None, None)
table.row("no optimizer", "not applicable", None, None, None, None)
table.row("another network in none", "suspect", None, None, None, events(used("opt"), networks=(network("decoder"),)))
PARTLY = NetworkFacts("decoder", (flow("weight"), flow("bias", held=True)), True, False, True)
table.row("a part of another network", "bug", None, None, None, events(used("opt"), networks=(PARTLY,)))
table.row("of a loss", "suspect", None, None, None, events(used("opt"), is_step=False, networks=(network("decoder"),)))
table.row("in eval mode", "note", None, None, None, events(used("opt"), networks=(network("vgg", in_eval=True),)))
table.row("trained before", "note", None, None, None, events(used("opt"), networks=(network("vgg", fresh=False),)))
table.row("held", "silent", None, None, None, events(used("opt"), networks=(network("decoder", held=True),)))
table.row(
    "moved by other code", "silent", None, None, None, events(used("opt"), networks=(network("ema", moved=True),))
)
table.row("a single parameter", "bug", None, None, None, events(used("opt"), loose=(flow("temperature"),)))
table.row("the step moves it", "silent", coverage(("0.weight",), ("1.weight",)), None, None, MOVED)


def hidden(in_optimizer: bool) -> HiddenParameter:
    """Return a layer in a list."""
    return HiddenParameter("blocks", "blocks[0].weight", (10, 1), 1.0, in_optimizer, "list")


table = Table("unregistered-parameters")
table.row("none", "silent", HiddenParameters((), (), 0, True))
table.row("in a list", "bug", HiddenParameters((hidden(False),), (), 0, True))
table.row("in a list and the optimizer", "note", HiddenParameters((hidden(True),), (), 0, True))
made = HiddenParameter("", "", (), 1.0, False, "Linear")
table.row("made in each forward pass", "bug", HiddenParameters((), (), 0, False, (made,), again=True))
table.row("made in the first pass, beside an optimizer", "bug", HiddenParameters((), (), 0, True, (made,)))
table.row("made in the first pass, before any optimizer", "silent", HiddenParameters((), (), 0, False, (made,)))
table.row("of the loss", "suspect", HiddenParameters((), (hidden(False),), 0, True))
table.row("of the loss, without an optimizer", "silent", HiddenParameters((), (hidden(False),), 0, False))

table = Table("missing-create-graph")
table.row("derivatives with a graph", "silent", DerivativeTerms(1, (), 1.0))
table.row("a constant term", "bug", DerivativeTerms(1, (0.5,), 1.0))

table = Table("blank-in-targets")
table.row("a free blank", "silent", CtcTargets(0, 64, 0, 0, 5))
table.row("a symbol with the number of the blank", "bug", CtcTargets(0, 64, 20, 0, 5))
table.row("most targets are too long", "bug", CtcTargets(0, 64, 0, 40, 5))
table.row("some targets are too long", "suspect", CtcTargets(0, 64, 0, 4, 5))

table = Table("layers-share-weights")
table.row("none", "silent", SharedLayers(()), None)
table.row("a stack of one", "suspect", SharedLayers((SharedLayer("blocks", ("0", "1"), "Linear", 72, True),)), None)
table.row("heads of one", "note", SharedLayers((SharedLayer("heads", ("0", "1"), "Linear", 72, False),)), None)
TABLES = FieldTables((FieldTable("embedding", 24, (8, 8, 8)),))
table.row("columns without offsets", "suspect", SharedLayers(()), TABLES)
