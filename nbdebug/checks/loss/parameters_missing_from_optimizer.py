"""Trainable parameters are not in the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.core.finding import Finding, Patch, Remedy, Severity, in_code
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.initial_weights import InitialWeights
from nbdebug.evidence.optimizer_coverage import OptimizerCoverage
from nbdebug.evidence.parameter_gradients import GradientReach
from nbdebug.evidence.parameter_parts import parts_of
from nbdebug.evidence.step_events import NetworkFacts, StepEvents

__all__ = ["parameters_missing_from_optimizer"]

SOURCE = "37 reasons, 23: an optimizer updates only the parameters it holds"
# Modules with such names usually have their own optimizer; the name only lowers the severity.
TRAINED_ELSEWHERE = ("disc", "critic", "teacher", "target", "ema", "momentum", "adversar", "netd", "netg")


@check(explains=("cannot-overfit-batch",))
def parameters_missing_from_optimizer(
    coverage: OptimizerCoverage | None,
    reach: GradientReach | None,
    weights: InitialWeights | None,
    events: StepEvents | None,
) -> Iterator[Finding]:
    """Trainable parameters of the model, or of another network that the loss trains, are in no optimizer.

    nbdebug compares the optimizer's tensors with the model's by identity, before training or in a training that it
    watches. It also follows the gradients into other networks and parameters that your loss or training step names,
    through a few calls on a copy. Frozen parameters need not be in an optimizer, nor those that another one holds or
    that other code updates.

    Why it matters: a parameter that no optimizer holds never changes, however large its gradient. It happens when a
    layer is replaced, or the model is re-created, after the optimizer was created, or when only some of the parameters
    were passed to it.

    What to try: create the optimizer from `model.parameters()` after the model is complete and on its device.
    """
    if coverage is None and events is None:
        raise NotApplicable("no optimizer was passed, and none was found")
    if coverage is not None:
        yield from _of_model(coverage, reach, weights, events)
    if events is not None and any(optimizer.parameters for optimizer in events.optimizers):
        yield from _of_others(events, coverage)


def _of_model(
    coverage: OptimizerCoverage,
    reach: GradientReach | None,
    weights: InitialWeights | None,
    events: StepEvents | None,
) -> Iterator[Finding]:
    """Return what the passed optimizer leaves out of the model."""
    if reach is not None and reach.is_watched:  # which covers only what the optimizer holds
        reach = None
    without_gradient = {p.name for p in reach.parameters if not p.is_reached} if reach is not None else set()
    models = [network for network in events.networks if network.name == "model"] if events is not None else []
    trained = {p.name for network in models for p in network.parameters if p.held or p.moved}
    missing = [name for name in coverage.missing if name not in without_gradient | trained]
    if not missing:
        return
    total = len(coverage.held) + len(coverage.missing)
    strays = f" It holds {len(coverage.strays)} tensors that do not belong to this model." if coverage.strays else ""
    if not coverage.held:
        says = f"`{coverage.optimizer}` holds none of the model's {total} trainable parameters.{strays}"
        yield _finding(says, "model", missing, coverage, "bug")
        return
    replaced = [name for name in missing if coverage.shapes.get(name) in coverage.strays]
    parts = parts_of(missing, [*coverage.held, *coverage.elsewhere])
    if len(parts) > 5:
        parts = {next(iter(parts)): missing}
    for path, names in parts.items():
        hint = strays if set(names) & set(replaced) else ""
        if coverage.doubled:
            hint += f" `{coverage.doubled[0]}` holds the same parameters as another one."
        gets = " although they receive a gradient" if reach is not None or coverage.all_reached else ""
        says = f"{len(names)} of {total} trainable parameters, all in `{path}`, are not in the optimizer{gets}.{hint}"
        severity = _severity(path, names, reach, weights) if reach is not None else _by_order(path, coverage)
        yield _finding(says, path, names, coverage, "bug" if hint else severity)


def _of_others(events: StepEvents, coverage: OptimizerCoverage | None) -> Iterator[Finding]:
    """Return parameters of other networks, and of the program itself, that get a gradient and never change."""
    for network in events.networks:
        if (network.name == "model" and coverage is not None) or not network.missing:
            continue
        whole = not any(p.held for p in network.parameters)
        meant = whole and (network.in_eval or not network.fresh or _is_trained_elsewhere(network.name))
        # A whole network may be trained by other code.
        yield _of_network(network, events, "note" if meant else "suspect" if whole else "bug")
    for flow in events.loose:
        if flow.calls_with_gradient and not flow.held and not flow.moved:
            says = f"`{flow.name}` requires a gradient and receives one, but is in no optimizer, so it never changes."
            yield _finding_in(says, flow.name, [flow.name], events, "bug", f'{{"params": [{flow.name}]}}')


def _of_network(network: NetworkFacts, events: StepEvents, severity: Severity) -> Finding:
    names, total = [p.name for p in network.missing], len(network.parameters)
    says = (
        f"{len(names)} of {total} parameters of `{network.name}` receive a gradient but are in no optimizer, so they "
        "never change."
    )
    return _finding_in(says, network.name, names, events, severity, f'{{"params": {network.name}.parameters()}}')


def _finding_in(
    says: str, where: str, names: Sequence[str], events: StepEvents, severity: Severity, group: str
) -> Finding:
    return Finding(
        says,
        where=where,
        severity=severity,
        evidence={
            "missing": list(names)[:50],
            "calls": events.calls,
            "optimizers": [optimizer.name for optimizer in events.optimizers],
            "threshold": "every parameter with a gradient is held by an optimizer",
            "source": SOURCE,
        },
        remedies=(
            Remedy(
                "Add them to an optimizer.",
                f"optimizer.add_param_group({group})",
                Patch("train-reached", {"name": where}) if events.is_step or where == "loss_fn" else None,
            ),
        ),
        explains=("unregistered-parameters",) if where == "loss_fn" else (),
    )


def _by_order(path: str, coverage: OptimizerCoverage) -> Severity:
    """Return a note for a backbone below the trained head, where only the order of the parameters is known."""
    order = list(coverage.shapes)
    held = [order.index(name) for name in (*coverage.held, *coverage.elsewhere) if name in coverage.shapes]
    is_backbone = max(order.index(name) for name in coverage.missing) < min(held, default=0)
    return "note" if is_backbone or _is_trained_elsewhere(path) else "suspect"


def _is_trained_elsewhere(path: str) -> bool:
    return any(word in path.lower() for word in TRAINED_ELSEWHERE)


def _severity(path: str, names: Sequence[str], reach: GradientReach, weights: InitialWeights | None) -> Severity:
    """Return a note for what is often intended: another network's part, or a pretrained backbone below a new head."""
    matrices = [p for p in reach.parameters if p.name in set(names) and p.is_weight]
    if _is_trained_elsewhere(path):
        return "note"
    owners = {p.owner for p in matrices}
    trained = weights is not None and any(w.path in owners and not w.looks_fresh for w in weights.weights)
    if trained and _is_before_the_rest(names, reach):
        return "note"
    return "suspect" if "." not in path and len(matrices) >= 2 else "bug"


def _is_before_the_rest(names: Sequence[str], reach: GradientReach) -> bool:
    """Return whether all missing layers run before those that the optimizer holds."""
    missing = [p.position for p in reach.parameters if p.name in set(names) and p.is_weight]
    held = [p.position for p in reach.parameters if p.in_optimizer and p.is_weight]
    return bool(missing and held) and max(missing) < min(held)


def _finding(says: str, where: str, names: Sequence[str], coverage: OptimizerCoverage, severity: Severity) -> Finding:
    return Finding(
        says,
        where=where,
        severity=severity,
        evidence={
            "missing": list(names),
            "held": len(coverage.held),
            "tensors of no parameter of this model": len(coverage.strays),
            "threshold": "every trainable parameter is held by an optimizer",
            "source": SOURCE,
        },
        remedies=(
            Remedy(
                "Create the optimizer after the model is complete.",
                f"optimizer = {coverage.optimizer}(model.parameters(), lr=…)",
                Patch("train-everything"),
            ),
            Remedy(
                "Add the missing parameters as a new group.",
                f"optimizer.add_param_group({{'params': {in_code(where)}.parameters()}})",
            ),
        ),
    )
