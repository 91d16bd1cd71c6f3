"""Chance that stays on in eval mode."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbdebug.evidence import EvalNoise, RandomCall
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["eval_not_deterministic"]


@check(explains=("not-reproducible",))
def eval_not_deterministic(noise: EvalNoise, *, change: float = 1e-3) -> Iterator[Finding]:  # healthy models give 0
    """In eval mode the same batch gets another prediction every time.

    nbdebug runs one batch in eval mode with different random numbers, and listens for the random operations. Models
    that draw samples by design (variational autoencoders, diffusion, Bayesian weights) get a note only, and so does
    dropout whose line says `training=True`, as it is written to draw many answers and look at their spread.

    Why it matters: dropout or noise that is meant for training alone makes predictions worse and impossible to repeat.
    Usual causes are `F.dropout(x)` without `training=self.training`, and layers in plain lists that `eval()` never
    reaches.

    What to try: pass training=self.training to functional dropout, use nn.Dropout, keep layers in nn.ModuleList, and
    guard noise with `if self.training`.
    """
    if noise.changed <= max(change, 10 * noise.repeated):
        return
    kinds = {call.kind for call in noise.calls}
    masks = [call for call in noise.calls if call.elementwise and call.kind in ("uniform", "normal")]
    answers = noise.plain and noise.task in ("classification", "binary", "multilabel", "regression")
    severity: Severity = "note"
    if "dropout" in kinds:
        severity = "note" if all(_is_meant(call) for call in noise.calls if call.kind == "dropout") else "bug"
    elif answers and (masks or not noise.calls):
        severity = "suspect"
    call = next((c for c in noise.calls if c.kind == "dropout"), masks[0] if masks else None)
    named = f" ({call.name} is called in {call.where})" if call is not None else ""
    if call is not None and _is_meant(call):
        named += f"; the line `{call.source}` asks for it"
    yield Finding(
        f"In eval mode, two runs of the same batch differ by up to {noise.changed:.2g} times the spread of the outputs"
        f"{named}.",
        where=call.where if call is not None else noise.first,
        severity=severity,
        evidence={
            "change": noise.changed,
            "change with the same random numbers": noise.repeated,
            "operations": sorted({c.name for c in noise.calls}),
            "threshold": change,
            "source": "a model in eval mode without chance gives exactly 0",
        },
        remedies=(
            Remedy(
                "Tell functional dropout the mode.",
                "F.dropout(x, p, training=self.training)",
                Patch("no-chance-in-eval") if "dropout" in kinds else None,
            ),
            Remedy(
                "Add noise in training only.",
                "if self.training:\n    x = x + noise",
                Patch("no-chance-in-eval") if "dropout" not in kinds else None,
            ),
            Remedy(
                "Keep layers where eval() reaches them.",
                "self.layers = nn.ModuleList(layers)",
                Patch("hold-hidden-layers"),
            ),
        ),
        exhibit=Bars(("other random numbers", "the same"), (noise.changed, noise.repeated)),
    )


def _is_meant(call: RandomCall) -> bool:
    """Whether the author's own line asks for dropout in every mode; to leave the mode out is how it is forgotten."""
    return re.search(r"\b(training|train)\s*=\s*True\b", call.source) is not None
