"""What has no table yet, and the thresholds that need no pair; both may only become fewer."""

from __future__ import annotations

WITHOUT_TABLE: set[str] = {
    "batch-mixing",
    "batchnorm-misused",
    "causal-leak",
    "checkpoint-not-loaded",
    "custom-backward-wrong",
    "epochs-in-one-order",
    "forward-fails",
    "hardcoded-batch-size",
    "inputs-ignored",
    "lagging-rank",
    "left-in-eval-mode",
    "loss-diverges",
    "loss-flat",
    "loss-spikes",
    "non-finite-backward",
    "non-finite-forward",
    "non-finite-loss",
    "nondeterministic-eval",
    "not-reproducible",
    "outputs-identical",
    "predictions-unstable",
    "rank-buffers-differ",
    "ranks-drift-apart",
    "ranks-share-data",
    "still-improving",
    "train-eval-gap",
    "weights-growing",
}

# (check, threshold): why no evidence can lie on both sides of it
WITHOUT_PAIR: dict[tuple[str, str], str] = {}
