"""The stages before and after the experiments, as data: start simple, live training, generalization."""

from __future__ import annotations

from nbdebug.engine.decision_tree.parts import Stage, Step

__all__ = ["IMPROVE", "START_SIMPLE", "WATCH"]

START_SIMPLE = Stage(
    "begin",
    "Start simple",
    (
        Step(
            "simple",
            "Simple baseline",
            "Is this the simplest setup that could work?",
            "A feature that is switched off cannot be the broken one. Add features back one at a time.",
            instruments=("starter",),
        ),
        Step(
            "look",
            "Batch preview",
            "Have you looked at a batch as the model receives it?",
            "A rotated image or a misaligned label is obvious to the eye and hard to detect with statistics.",
            instruments=("show_batch",),
        ),
    ),
)

WATCH = Stage(
    "watch",
    "Live training",
    (
        Step(
            "live",
            "Loss curve",
            "How does the loss develop in the real training run?",
            "Loss spikes, divergence and plateaus often appear only after hours of training.",
            ("non-finite-loss", "loss-diverges", "loss-spikes", "loss-flat", "still-improving"),
            instruments=("watch",),
        ),
        Step(
            "rest",
            "Stability",
            "Do the weights and the predictions converge?",
            "If weights keep growing or predictions keep flipping, training does not converge.",
            ("weights-growing", "predictions-unstable"),
            instruments=("follow_predictions",),
        ),
        Step(
            "ranks",
            "Distributed ranks",
            "Do all ranks train the same model, each on its own shard of the data?",
            "A broken distributed setup raises no error, but trains no faster than one device or diverges.",
            (
                "ranks-drift-apart",
                "rank-buffers-differ",
                "ranks-share-data",
                "epochs-in-one-order",
                "lagging-rank",
            ),
        ),
        Step(
            "inside",
            "Layer activity",
            "What do the activations and gradients inside the network look like?",
            "The loss is one number; activations and gradients show which layer causes it.",
            instruments=("show_activations", "show_gradients", "tap"),
        ),
    ),
)

IMPROVE = Stage(
    "improve",
    "Generalization",
    (
        Step(
            "known-result",
            "Known result",
            "Does the model match a known result?",
            "If a reference model does better on the same data, compare the two until they agree.",
            instruments=("compare",),
        ),
        Step(
            "error-parts",
            "Bias, variance, shift",
            "Which part of the error is the largest?",
            "Bias, variance and distribution shift need different fixes; start with the largest part.",
            instruments=("decompose", "k_fold"),
        ),
        Step(
            "error-analysis",
            "Error analysis",
            "What do the samples with the highest loss have in common?",
            "A slice with a high error shows which data to collect or which labels to correct.",
            instruments=("analyse_errors",),
        ),
        Step(
            "tuning",
            "Tuning",
            "Which hyperparameters work best?",
            "Once no bug is left, search the hyperparameters, starting with the learning rate.",
            instruments=("tune",),
        ),
    ),
)
