"""The former ids of checks that were renamed; they are accepted wherever an id is, also in saved reports."""

from __future__ import annotations

__all__ = ["FORMER_IDS", "current_id"]

FORMER_IDS = {
    "batch-not-memorised": "cannot-overfit-batch",
    "batch-size-hardwired": "hardcoded-batch-size",
    "data-changed-by-reading": "preprocessing-mutates-data",
    "eval-not-deterministic": "nondeterministic-eval",
    "feature-scales-apart": "feature-scales-differ",
    "give-it-time": "still-improving",
    "gradients-accumulate": "accumulated-gradients",
    "initialisation-off-scale": "initialization-off-scale",
    "learns-without-inputs": "model-ignores-inputs",
    "symmetric-initialisation": "symmetric-initialization",
    "target-shape-mismatch": "incompatible-target-shape",
    "unnormalised-inputs": "unnormalized-inputs",
    "worker-twins": "worker-rng-duplicates",
}


def current_id(check: str) -> str:
    """Return the id of a check as it is spelled today, whatever its case or age."""
    name = check.replace("_", "-")
    return FORMER_IDS.get(name, name)
