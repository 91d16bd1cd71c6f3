"""Parameters that no gradient reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.errors import NotApplicable
from nbdebug.evidence import GradientReach, ParameterReach
from nbdebug.evidence.parts import parts_of
from nbdebug.exhibit import Table
from nbdebug.finding import Finding, Patch, Remedy, in_code
from nbdebug.registry import check

__all__ = ["untrained_parameters"]

ZEROS = 200  # steps of a training: a part whose weight is zero at first may wake up later
SOURCE = "37 reasons, 23: a parameter without a gradient cannot learn"


@check(explains=("batch-not-memorised",))
def untrained_parameters(reach: GradientReach, *, influence: float = 1e-6) -> Iterator[Finding]:  # rounding is below
    """Parameters that should be trained receive no gradient.

    nbdebug runs several batches forward and back, follows the gradient to every parameter that asks for one, and
    replaces the values of those that got none, to see whether the answer depends on them. A gradient that is exactly
    zero is given a few steps to come to life, as it does behind layers that start at zero. In a training that it
    watches it names what the optimizer holds and no gradient ever came to, though its layer takes part.

    Why it matters: the layers before a cut stay as they were initialised while those after it learn to live with
    them. The loss falls, only not as far as it could, and nothing warns.

    What to try: look behind the module named for detach(), .data, .item(), no_grad, numpy(), round(), argmax or a new
    tensor made from values; call every layer in forward that you define, or remove it.
    """
    silent = [p for p in reach.trainable if not p.is_reached]
    if not reach.trainable:
        raise NotApplicable("no parameter asks for a gradient; see frozen-parameters")
    if len(silent) == len(reach.trainable) and reach.output_has_gradient:
        raise NotApplicable("no gradient comes out of the loss at all, though the outputs could take one")
    if reach.is_watched:
        yield from _in_training(silent, reach)
        return
    matter = {p.name for p in silent if (p.influence or 0.0) > influence}
    known = {p.name: p for p in silent}
    inside = [name for cut in reach.cuts if cut.inside for name in cut.parameters if name in matter]
    if inside:
        first = next(cut for cut in reach.cuts if cut.inside)
        yield _cut([known[n] for n in inside], first.after, f"the output of {first.after} carries no gradient", reach)
    for cut in reach.cuts:
        names = [name for name in cut.parameters if name in matter and not cut.inside]
        if names:
            place = f"the way ends behind {cut.after}" + (f", before {cut.before}" if cut.before else "")
            yield _cut([known[n] for n in names], cut.after, place, reach)
    unused = [p.name for p in silent if p.name not in matter]
    for path, names in parts_of(unused, [p.name for p in reach.parameters if p.name not in unused]).items():
        yield _unused(path, [known[name] for name in names], reach)


def _in_training(silent: Sequence[ParameterReach], reach: GradientReach) -> Iterator[Finding]:
    names = [p.name for p in silent]
    known = {p.name: p for p in silent}
    for path, own in parts_of(names, [p.name for p in reach.parameters if p.name not in known]).items():
        group = [known[name] for name in own]
        taking_part = [p for p in group if p.calls and not p.is_copy]
        cut = all(p.is_cut for p in group)
        kind = "no gradient" if cut else "no gradient other than zero"
        how = "though their layers take part in the forward pass" if taking_part else "and no layer of them was seen"
        if any(p.is_copy for p in group):
            how = "and something else moves them"
        yield Finding(
            f"The optimizer holds {_count(group)}, but {kind} came to them in {reach.batches} steps, {how}.",
            where=path,
            severity="suspect" if taking_part and (cut or reach.batches >= ZEROS) else "note",
            evidence={"parameters": own, "steps": reach.batches, "threshold": "any gradient at all", "source": SOURCE},
            remedies=(
                Remedy(
                    "Look behind the layer for detach(), .data, .item(), numpy() or no_grad, or for a result that "
                    "nobody uses; nbdebug.diagnose says where the way ends.",
                    "nbdebug.diagnose(model, loader, loss_fn, optimizer)",
                ),
                Remedy("If they are meant to stay as they are, say so.", "part.requires_grad_(False)"),
            ),
        )


def _cut(group: Sequence[ParameterReach], where: str, place: str, reach: GradientReach) -> Finding:
    kind = "no gradient" if all(p.is_cut for p in group) else "a gradient of exactly zero"
    meant = all(p.is_copy or (reach.optimizer_given and not p.in_optimizer) for p in group)
    own = [p.name for p in group if p.owner == where == "model"]  # what the model itself holds has no layer to name
    return Finding(
        f"{_count(group)} receive {kind} in {reach.batches} batches although the answer depends on them: {place}.",
        where=own[0] if own else where,
        severity="note" if meant else "bug",
        evidence=_evidence(group, reach),
        remedies=(
            Remedy(
                "Keep tensors in the graph: no detach, .data, .item() or numpy() between layers.",
                "x = layer(x)",
                Patch("keep-graph"),
            ),
            Remedy("If these are meant to stay as they are, say so.", "part.requires_grad_(False)"),
        ),
        explains=() if reach.loss_has_gradient else ("loss-not-differentiable",),
        exhibit=_table(group),
    )


def _unused(path: str, group: Sequence[ParameterReach], reach: GradientReach) -> Finding:
    at_work = {p.owner for p in reach.parameters if p.is_reached}  # whose constant may drop out, as in a derivative
    meant = all(
        p.is_copy
        or p.conditional
        or (reach.optimizer_given and not p.in_optimizer)
        or not p.is_cut
        or (p.shifts_layer and p.owner in at_work)
        for p in group
    )
    idle = "are never used: changing them changes nothing" if any(p.is_cut for p in group) else "do not touch the loss"
    return Finding(
        f"{_count(group)} of {path} {idle}, and no gradient comes to them in {reach.batches} batches.",
        where=path,
        severity="note" if meant else "suspect",
        evidence=_evidence(group, reach),
        remedies=(Remedy("Call it in forward, or remove it from the model.", f"x = {in_code(path, 'self')}(x)"),),
        exhibit=_table(group),
    )


def _count(group: Sequence[ParameterReach]) -> str:
    names = ", ".join(p.name for p in group[:3]) + (f" and {len(group) - 3} more" if len(group) > 3 else "")
    return f"{len(group)} parameter{'s' * (len(group) > 1)} ({names}; {sum(p.size for p in group):,} values)"


def _evidence(group: Sequence[ParameterReach], reach: GradientReach) -> dict[str, object]:
    return {
        "parameters": [p.name for p in group],
        "influence on the answer": max((p.influence or 0.0) for p in group),
        "batches": reach.batches,
        "threshold": "a gradient other than zero in at least one batch",
        "source": SOURCE,
    }


def _table(group: Sequence[ParameterReach]) -> Table:
    rows = tuple((p.name, "none" if p.is_cut else "exactly zero", p.influence or 0.0) for p in group[:50])
    return Table(("parameter", "gradient", "influence on the answer"), rows, title="Parameters without a gradient")
