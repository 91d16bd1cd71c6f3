"""The stage that trains a copy of the model, as data."""

from __future__ import annotations

from nbdebug.engine.decision_tree.parts import Stage, Step

__all__ = ["LEARN"]

LEARN = Stage(
    "learn",
    "Optimization",
    (
        Step(
            "own-loop",
            "Training step",
            "Are zero_grad, backward, step, clipping and the autograd graph handled correctly?",
            "A training loop with one line missing runs, prints a loss and does not train.",
            (
                "step-never-taken",
                "accumulated-gradients",
                "gradients-discarded",
                "clipping-without-effect",
                "clipping-too-tight",
                "accumulation-not-averaged",
                "requires-grad-left-off",
                "graph-kept-alive",
            ),
        ),
        Step(
            "several-networks",
            "Several networks",
            "Does each optimizer train its own network, with the gradients of its own loss?",
            "In a GAN or an actor-critic, the gradients of one network must not reach the other.",
            (
                "optimizer-without-effect",
                "gradients-leak-between-optimizers",
                "adversarial-labels-equal",
                "moving-average-wrong",
            ),
        ),
        Step(
            "optimizer",
            "Optimizer and schedule",
            "Are the optimizer's hyperparameters and the schedule in the usual range?",
            "A misplaced decimal raises no error; it only stops training.",
            ("unusual-optimizer", "updates-lost-to-rounding", "schedule-unit-wrong", "schedule-reaches-zero"),
        ),
        Step(
            "learning-rate",
            "Learning rate",
            "Is the learning rate too high or too low?",
            "The learning rate is the most important hyperparameter.",
            ("learning-rate-too-high", "learning-rate-too-low"),
        ),
        Step(
            "memorize",
            "Overfit one batch",
            "Can the model overfit a single small batch?",
            "A model that cannot has a bug; more data or longer training will not help.",
            ("cannot-overfit-batch",),
        ),
        Step(
            "short-run",
            "Short training run",
            "Does it beat a constant baseline, using the inputs?",
            "A loss can fall without the model using its inputs.",
            (
                "training-fails",
                "training-slow",
                "model-ignores-inputs",
                "update-ratio-off",
                "loss-metric-disagree",
                "worse-than-baseline",
            ),
        ),
        Step(
            "speed",
            "Data loading speed",
            "Does training wait for the DataLoader?",
            "A faster model does not help if the GPU waits for data.",
            ("loading-bottleneck",),
        ),
    ),
)
