"""Randomness in eval mode."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbdebug.evidence import EvalNoise, RandomCall
from nbdebug.exhibit import Bars
from nbdebug.finding import Finding, Patch, Remedy, Severity
from nbdebug.registry import check

__all__ = ["eval_not_deterministic"]


@check(explains=("not-reproducible",))
def eval_not_deterministic(noise: EvalNoise, *, change: float = 1e-3) -> Iterator[Finding]:  # 0 for a correct model
    """In eval mode the same batch gets a different prediction every time.

    nbdebug runs one batch in eval mode with different random seeds and records the random operations. Models that
    sample by design (variational autoencoders, diffusion, Bayesian weights) get a note only, and so does dropout called
    with `training=True`, as in Monte Carlo dropout.

    Why it matters: dropout or noise that is meant for training only makes predictions worse and irreproducible. Typical
    causes are `F.dropout(x)` without `training=self.training`, and layers in plain lists that `eval()` does not reach.

    What to try: pass training=self.training to functional dropout, use nn.Dropout, keep layers in nn.ModuleList, and
    guard noise with `if self.training`.
    """
    if noise.changed <= max(change, 10 * noise.repeated):
        return
    kinds = {call.kind for call in noise.calls}
    masks = [call for call in noise.calls if call.elementwise and call.kind in ("uniform", "normal")]
    predicts = noise.plain and noise.task in ("classification", "binary", "multilabel", "regression")
    severity: Severity = "note"
    if "dropout" in kinds:
        severity = "note" if all(_is_intended(call) for call in noise.calls if call.kind == "dropout") else "bug"
    elif predicts and (masks or not noise.calls):
        severity = "suspect"
    call = next((c for c in noise.calls if c.kind == "dropout"), masks[0] if masks else None)
    named = f" (`{call.name}` is called in `{call.where}`)" if call is not None else ""
    if call is not None and _is_intended(call):
        named += f"; `{call.source}` requests it"
    yield Finding(
        f"In eval mode, two runs of the same batch differ by up to {noise.changed:.2g} standard deviations of the "
        f"outputs{named}.",
        where=call.where if call is not None else noise.first,
        severity=severity,
        evidence={
            "change": noise.changed,
            "change with the same random numbers": noise.repeated,
            "operations": sorted({c.name for c in noise.calls}),
            "threshold": change,
            "source": "exactly 0 for a deterministic model in eval mode",
        },
        remedies=(
            Remedy(
                "Pass the mode to functional dropout.",
                "F.dropout(x, p, training=self.training)",
                Patch("no-chance-in-eval") if "dropout" in kinds else None,
            ),
            Remedy(
                "Add noise in training mode only.",
                "if self.training:\n    x = x + noise",
                Patch("no-chance-in-eval") if "dropout" not in kinds else None,
            ),
            Remedy(
                "Register the layers so that `eval()` reaches them.",
                "self.layers = nn.ModuleList(layers)",
                Patch("hold-hidden-layers"),
            ),
        ),
        exhibit=Bars(("different seed", "same seed"), (noise.changed, noise.repeated)),
    )


def _is_intended(call: RandomCall) -> bool:
    """Return whether the calling line enables dropout explicitly; omitting the argument is the usual mistake."""
    return re.search(r"\b(training|train)\s*=\s*True\b", call.source) is not None
