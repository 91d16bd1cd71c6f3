"""Layers or tensors are not registered as parameters."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import HiddenParameter, HiddenParameters
from nbdebug.finding import Finding, Patch, Remedy
from nbdebug.registry import check

__all__ = ["unregistered_parameters"]

SOURCE = "37 reasons, 23: an optimizer only updates what model.parameters() lists"


@check(explains=("batch-not-memorised", "eval-not-deterministic", "train-eval-gap", "worse-than-baseline"))
def unregistered_parameters(hidden: HiddenParameters) -> Iterator[Finding]:
    """Layers or tensors that the forward pass uses are not registered as parameters.

    nbdebug walks the autograd graph of the loss to its leaf tensors, and looks for those that `model.parameters()` does
    not list: layers in plain lists, dicts and tuples, tensors in plain attributes.

    Why it matters: the optimizer never updates them, `to(device)` does not move them, `state_dict` does not save them.
    They keep their initial values, and nothing warns.

    What to try: hold layers in `nn.ModuleList` or `nn.ModuleDict`, tensors in `nn.Parameter` or `nn.ParameterList`, and
    pass the parameters of the loss to the optimizer as well.
    """
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
            "threshold": "model.parameters() lists every leaf of the graph",
            "source": SOURCE,
        },
        remedies=(
            Remedy(
                "Register the layers or tensors as parameters.",
                wrap,
                Patch("train-loss" if place.startswith("loss_fn.") else "register-hidden"),
            ),
        ),
    )
