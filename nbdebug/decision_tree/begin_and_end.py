"""The stages before and after the experiments, as data: to start simple, to watch the real training, to improve."""

from __future__ import annotations

from nbdebug.decision_tree.parts import Stage, Step

__all__ = ["IMPROVE", "START_SIMPLE", "WATCH"]

START_SIMPLE = Stage(
    "begin",
    "Start simple",
    (
        Step(
            "simple",
            "Is this the simplest thing that could work?",
            "What is added one piece at a time says by itself which piece is broken.",
            instruments=("starter",),
        ),
        Step(
            "look",
            "Have you looked at what the network receives?",
            "A person sees at a glance what no statistic says: a picture on its side, a label of another sample.",
            instruments=("show_batch",),
        ),
    ),
)

WATCH = Stage(
    "watch",
    "Watch it train",
    (
        Step(
            "live",
            "How does the real training go?",
            "Some illnesses come only after hours: spikes, weights that grow, units that die on the way.",
            ("non-finite-loss", "loss-diverges", "loss-spikes", "loss-flat", "give-it-time"),
            instruments=("watch",),
        ),
        Step(
            "rest",
            "Do weights and answers come to rest?",
            "A model that learns settles; one that keeps turning over forgets as much as it learns.",
            ("weights-growing", "predictions-unstable"),
            instruments=("follow_predictions",),
        ),
        Step(
            "ranks",
            "Do all processes train the same model, each on data of its own?",
            "A distributed training with a part missing runs, and is a slow way to train on one device.",
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
            "What happens inside the network?",
            "The loss is one number; the layers say where it comes from.",
            instruments=("show_activations", "show_gradients", "tap"),
        ),
    ),
)

IMPROVE = Stage(
    "improve",
    "Evaluate and improve",
    (
        Step(
            "known-result",
            "Does it give what a known result gives?",
            "A reference that does better on the same data has something that yours has not.",
            instruments=("compare",),
        ),
        Step(
            "error-parts",
            "Which part of the error is the largest?",
            "Bias, variance and shift have different cures, and the largest part is worth the next week.",
            instruments=("decompose", "analyse_errors", "k_fold"),
        ),
        Step(
            "tuning",
            "Which settings are best?",
            "Once nothing is broken, what is left is search; the learning rate comes first.",
            instruments=("tune",),
        ),
    ),
)
