"""Layers and tensors that torch does not know of."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import HiddenParameter, HiddenParameters
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["unregistered_parameters"]

SOURCE = "37 reasons, 23: what model.parameters() does not list, no optimizer trains"


@check(explains=("batch-not-memorised", "eval-not-deterministic", "train-eval-gap", "worse-than-baseline"))
def unregistered_parameters(hidden: HiddenParameters) -> Iterator[Finding]:
    """Layers or tensors that the forward pass uses are not registered as parameters.

    nbdebug walks the graph of the loss to the tensors that would receive a gradient, and looks for those which
    `model.parameters()` does not list: layers in plain lists, dicts and tuples, tensors in plain attributes.

    Why it matters: the optimizer never sees them, `to(device)` leaves them behind, `state_dict` does not save them.
    They stay as they were initialised for ever, and nothing warns.

    What to try: hold layers in nn.ModuleList or nn.ModuleDict, tensors in nn.Parameter or nn.ParameterList, and give
    the parameters of a loss to the optimizer as well.
    """
    groups: dict[str, list[HiddenParameter]] = {}
    for fact in hidden.of_model:
        groups.setdefault(fact.place, []).append(fact)
    for place, facts in groups.items():
        learned = all(fact.in_optimizer for fact in facts)
        yield _finding(
            place,
            facts,
            f"{len(facts)} tensor{'s' * (len(facts) > 1)} in {place} ({facts[0].path}; a {facts[0].container}) "
            f"receive{'s' * (len(facts) == 1)} a gradient but {'are' if len(facts) > 1 else 'is'} no parameter of the "
            f"model" + ("; the optimizer was given it by hand." if learned else ", so no optimizer learns of it."),
            "note" if learned else "bug",
        )
    lone = [fact for fact in hidden.of_loss if not fact.in_optimizer]
    if lone and hidden.optimizer_given:
        says = (
            f"The loss has {len(lone)} trainable tensors of its own ({lone[0].path}) that the optimizer does not hold."
        )
        yield _finding(lone[0].place, lone, says, "suspect")


def _finding(place: str, facts: list[HiddenParameter], says: str, severity: str) -> Finding:
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
            "threshold": "every leaf of the graph is listed by model.parameters()",
            "source": SOURCE,
        },
        remedies=(
            Remedy(
                "Register what has to learn.",
                wrap,
                Patch("train-loss" if place.startswith("loss_fn.") else "register-hidden"),
            ),
        ),
    )
