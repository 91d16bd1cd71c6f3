"""Parameters receive no gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.charts import Table
from nbdebug.core.finding import Finding, Patch, Remedy, in_code
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.parameter_gradients import GradientReach, ParameterReach
from nbdebug.evidence.parameter_parts import parts_of
from nbdebug.evidence.silent_parts import SilentParts

__all__ = ["untrained_parameters"]

SOURCE = "37 reasons, 23: a parameter without a gradient cannot learn"


@check(basis="statistic", explains=("cannot-overfit-batch",))
def untrained_parameters(
    reach: GradientReach | None,
    silent: SilentParts | None,
    *,
    influence: float = 1e-6,  # relative change of the output; float32 rounding is below
    zeros: int = 200,  # steps; our choice: a zero gradient behind a zero-initialized weight may become nonzero later
) -> Iterator[Finding]:
    """Trainable parameters receive no gradient.

    nbdebug runs several batches forward and backward, checks the gradient of every parameter with `requires_grad`, and
    replaces the values of those without one, to see whether the output depends on them. A gradient that is exactly zero
    is given a few steps to become nonzero, as it does behind zero-initialized layers. In a training that it watches, it
    names what the optimizer holds and never receives a gradient, although its layer takes part in the forward pass.

    Why it matters: the layers before a break in the graph keep their initial weights while those after it adapt to
    them. The loss falls, only not as far as it could, and nothing warns.

    What to try: look after the module named for `detach()`, `.data`, `.item()`, `no_grad`, `numpy()`, `round()`,
    `argmax` or a new tensor made from values; call every layer that you define in `forward`, or remove it.
    """
    if silent is not None:
        yield from _of_step(silent, influence)
    if reach is None:
        if silent is None:
            raise NotApplicable("no pass of the model or of the training step could be followed")
        return
    stepped = silent.reached if silent is not None else ()  # by the loss of the step, which may be another one
    missing = [p for p in reach.trainable if not p.is_reached and p.name not in stepped]
    if not reach.trainable:
        raise NotApplicable("no parameter requires a gradient; see frozen-parameters")
    if len(missing) == len(reach.trainable) and reach.output_has_gradient:
        raise NotApplicable("the loss sends no gradient at all, although the outputs are differentiable")
    if reach.is_watched:
        yield from _in_training(missing, reach, zeros)
        return
    matter = {p.name for p in missing if (p.influence or 0.0) > influence}
    known = {p.name: p for p in missing}
    inside = [name for cut in reach.cuts if cut.inside for name in cut.parameters if name in matter]
    if inside:
        first = next(cut for cut in reach.cuts if cut.inside)
        yield _cut(
            [known[n] for n in inside], first.after, f"the output of `{first.after}` is detached from the graph", reach
        )
    for cut in reach.cuts:
        names = [name for name in cut.parameters if name in matter and not cut.inside]
        if names:
            place = f"gradient flow stops after `{cut.after}`" + (f", before `{cut.before}`" if cut.before else "")
            place += f" (`{cut.by}`)" if cut.by else ""
            yield _cut([known[n] for n in names], cut.after, place, reach)
    unused = [p.name for p in missing if p.name not in matter]
    for path, names in parts_of(unused, [p.name for p in reach.parameters if p.name not in unused]).items():
        yield _unused(path, [known[name] for name in names], reach)


def _of_step(silent: SilentParts, influence: float) -> Iterator[Finding]:
    """Return parts of a training step that an optimizer holds and that change its loss, but get no gradient."""
    for part in silent.parts:
        if part.influence <= influence:
            continue
        where = f" (`{part.by}`" + (f" in `{part.module}`" if part.module else "") + ")" if part.by else ""
        meant = not part.fresh and part.by in ("no_grad", "detach")
        yield Finding(
            f"{len(part.parameters)} parameters of `{part.network}` affect the loss and are in an optimizer, but their "
            f"gradient is {'zero' if part.is_zero else 'None'} in all {silent.calls} calls{where}.",
            where=part.module or part.network,
            severity="note" if meant else "bug",
            is_contradiction=True,
            evidence={
                "parameters": list(part.parameters)[:50],
                "influence on the loss": part.influence,
                "ended by": part.by,
                "threshold": influence,
                "source": SOURCE,
            },
            remedies=(
                Remedy("Keep tensors in the graph: no detach, item(), numpy(), argmax or round between networks."),
                Remedy("If they are meant to stay fixed, freeze them.", f"{part.network}.requires_grad_(False)"),
            ),
        )


def _in_training(missing: Sequence[ParameterReach], reach: GradientReach, zeros: int) -> Iterator[Finding]:
    names = [p.name for p in missing]
    known = {p.name: p for p in missing}
    for path, own in parts_of(names, [p.name for p in reach.parameters if p.name not in known]).items():
        group = [known[name] for name in own]
        taking_part = [p for p in group if p.calls and not p.is_copy]
        cut = all(p.is_cut for p in group)
        kind = "None" if cut else "zero"
        how = "although their layers take part in the forward pass" if taking_part else "and their layers never ran"
        if any(p.is_copy for p in group):
            how = "and they are updated by other code"
        yield Finding(
            f"The optimizer holds {_count(group)}, but the gradient was {kind} in all {reach.batches} steps, {how}.",
            where=path,
            severity="suspect" if taking_part and (cut or reach.batches >= zeros) else "note",
            evidence={
                "parameters": own,
                "steps": reach.batches,
                "threshold": "a gradient in at least one step",
                "source": SOURCE,
            },
            remedies=(
                Remedy(
                    "Look after the layer for detach(), .data, .item(), numpy() or no_grad, or for an unused result; "
                    "nbdebug.diagnose locates where gradient flow stops.",
                    "nbdebug.diagnose(model, loader, loss_fn, optimizer)",
                ),
                Remedy("If they are meant to stay fixed, freeze them.", "part.requires_grad_(False)"),
            ),
        )


def _cut(group: Sequence[ParameterReach], where: str, place: str, reach: GradientReach) -> Finding:
    kind = "None" if all(p.is_cut for p in group) else "exactly zero"
    meant = all(p.is_copy or (reach.optimizer_given and not p.in_optimizer) for p in group)
    own = [p.name for p in group if p.owner == where == "model"]  # parameters of the model itself have no layer
    return Finding(
        f"{_count(group)} affect{'s' * (len(group) == 1)} the output, but the gradient is {kind} in all "
        f"{reach.batches} batches: {place}.",
        where=own[0] if own else where,
        severity="note" if meant else "bug",
        is_contradiction=True,
        evidence=_evidence(group, reach),
        remedies=(
            Remedy(
                "Keep tensors in the graph: no detach, .data, .item() or numpy() between layers.",
                "x = layer(x)",
                Patch("keep-graph"),
            ),
            Remedy("If they are meant to stay fixed, freeze them.", "part.requires_grad_(False)"),
        ),
        explains=() if reach.loss_has_gradient else ("loss-not-differentiable",),
        exhibit=_table(group),
    )


def _unused(path: str, group: Sequence[ParameterReach], reach: GradientReach) -> Finding:
    trained = {p.owner for p in reach.parameters if p.is_reached}  # whose bias may cancel, as in a derivative
    meant = all(
        p.is_copy
        or p.conditional
        or p.is_optional
        or (reach.optimizer_given and not p.in_optimizer)
        or not p.is_cut
        or (p.shifts_layer and p.owner in trained)
        for p in group
    )
    one = len(group) == 1
    effect = (
        f"{'is' if one else 'are'} never used" if any(p.is_cut for p in group) else f"never affect{'s' * one} the loss"
    )
    gradient = "None" if all(p.is_cut for p in group) else "zero"
    return Finding(
        f"{_count(group)} {effect}: {'its' if one else 'their'} gradient is {gradient} in all {reach.batches} batches "
        "tested.",
        where=path,
        severity="note" if meant else "suspect",
        evidence=_evidence(group, reach),
        remedies=(Remedy("Call it in forward, or remove it from the model.", f"x = {in_code(path, 'self')}(x)"),),
        exhibit=_table(group),
    )


def _count(group: Sequence[ParameterReach]) -> str:
    """Return the first names and the total number of values."""
    names = ", ".join(f"`{p.name}`" for p in group[:3]) + (f" and {len(group) - 3} more" if len(group) > 3 else "")
    return f"{names} ({sum(p.size for p in group):,} values)"


def _evidence(group: Sequence[ParameterReach], reach: GradientReach) -> dict[str, object]:
    return {
        "parameters": [p.name for p in group],
        "influence on the answer": max((p.influence or 0.0) for p in group),
        "batches": reach.batches,
        "threshold": "a gradient other than zero in at least one batch",
        "source": SOURCE,
    }


def _table(group: Sequence[ParameterReach]) -> Table:
    rows = tuple((p.name, "None" if p.is_cut else "exactly zero", p.influence or 0.0) for p in group[:50])
    return Table(("parameter", "gradient", "effect on output"), rows, title="Parameters without a gradient")
