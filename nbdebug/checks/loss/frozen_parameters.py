"""Parameters that are frozen by mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbdebug.core.finding import Finding, Patch, Remedy, in_code
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.parameter_gradients import GradientReach, ParameterReach

__all__ = ["frozen_parameters"]

SOURCE = "37 reasons, 23: a frozen layer in the middle is rarely intended, a frozen backbone is"


@check(basis="statistic", explains=("cannot-overfit-batch", "loss-not-differentiable"))
def frozen_parameters(
    reach: GradientReach,
    *,
    adapter_layers: int = 3,  # fewer frozen layers than this are not a pattern; our choice
    frozen_share: float = 0.5,  # of the values of all weights, beside adapters, which are far fewer; our choice
) -> Iterator[Finding]:
    """Parameters are frozen (requires_grad=False) where that is rarely intended.

    A frozen backbone under a trained head, frozen embeddings and adapters next to frozen layers are normal in
    fine-tuning, and so are fixed tables that a module holds beside its trained layers. A single frozen layer between
    trained ones, a frozen head, or a model that is completely frozen is not.

    Why it matters: a frozen layer never learns, and the others have to adapt to what it happens to compute.

    What to try: set requires_grad to True for the layers named, or remove the line that freezes them.
    """
    if reach.is_watched:
        raise NotApplicable("a watched run shows only trainable parameters; nbdebug.diagnose checks all")
    frozen = [p for p in reach.parameters if not p.requires_grad]
    if not frozen:
        return
    if len(frozen) == len(reach.parameters):
        yield _finding(frozen, "bug", "model", "All parameters of the model are frozen, so nothing can be learned.")
        return
    weights = [p for p in reach.parameters if p.is_weight and p.calls]
    if not weights:
        raise NotApplicable("no call of a layer with weights was observed")
    fed = [p for p in weights if not p.requires_grad and p.fed_by_trained]
    between = [p for p in fed if not p.beside_trained and not _is_constant(p, reach.parameters)]
    if (
        between
        and not _has_adapters(fed, weights, adapter_layers, frozen_share)
        and not _is_frozen_critic(between, weights)
    ):
        owners = list(dict.fromkeys(p.owner for p in between))
        yield _finding(
            between,
            "suspect",
            owners[0],
            f"{', '.join(f'`{owner}`' for owner in owners[:3])}{' and more' * (len(owners) > 3)} "
            f"{'are' if len(owners) > 1 else 'is'} frozen although earlier layers are trained.",
        )
        return
    share = sum(p.size for p in frozen) / sum(p.size for p in reach.parameters)
    says = f"{len(frozen)} of {len(reach.parameters)} parameters ({share:.0%} of the values) are frozen."
    yield _finding(frozen, "note", frozen[0].owner, says)


def _is_constant(parameter: ParameterReach, parameters: Sequence[ParameterReach]) -> bool:
    """Return whether a composite module holds it beside trained layers, as it does a fixed table of positions.

    Freezing a module by mistake freezes the layers inside as well.
    """
    start = "" if parameter.owner == "model" else f"{parameter.owner}."
    inside = [p.name.removeprefix(start) for p in parameters if p.requires_grad and p.name.startswith(start)]
    own = parameter.name.removeprefix(start)
    return "." not in own and any("." in name for name in inside)


def _has_adapters(fed: Sequence[ParameterReach], weights: Sequence[ParameterReach], layers: int, share: float) -> bool:
    """Return whether several frozen layers hold most of the values, as with adapters trained between them."""
    values = sum(p.size for p in weights if not p.requires_grad)
    return len(fed) >= layers and values >= share * sum(p.size for p in weights)


def _is_frozen_critic(between: Sequence[ParameterReach], weights: Sequence[ParameterReach]) -> bool:
    """Return whether a whole frozen network follows a trained one, as a critic or a perceptual loss does."""
    child = between[0].name.split(".")[0]
    same = [p for p in weights if p.name.split(".")[0] == child]
    others = [p for p in weights if p.name.split(".")[0] != child]
    whole = {p.name for p in same} == {p.name for p in between}
    on_top = bool(others) and min(p.position for p in same) > max(p.position for p in others)
    return whole and on_top and len(same) >= 2


def _finding(group: Sequence[ParameterReach], severity: str, where: str, says: str) -> Finding:
    return Finding(
        says,
        where=where,
        severity=severity,  # type: ignore[arg-type]
        evidence={
            "parameters": [p.name for p in group],
            "values": sum(p.size for p in group),
            "threshold": "a frozen layer after a trained one",
            "source": SOURCE,
        },
        remedies=(
            Remedy(
                "Unfreeze the parameters.",
                f"{in_code(where)}.requires_grad_(True)",
                Patch("unfreeze", {"parameters": [p.name for p in group]}),
            ),
        ),
    )
