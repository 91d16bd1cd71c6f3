"""The stage in which a copy is trained, as data."""

from __future__ import annotations

from nbdebug.decision_tree.parts import Stage, Step

__all__ = ["LEARN"]

LEARN = Stage(
    "learn",
    "Overfit one batch, then learn",
    (
        Step(
            "own-loop",
            "Does your training step do what it should?",
            "A loop with one line missing runs, prints a loss and learns nothing.",
            (
                "step-never-taken",
                "gradients-accumulate",
                "gradients-discarded",
                "clipping-too-tight",
                "graph-kept-alive",
            ),
        ),
        Step(
            "optimizer",
            "Are the optimizer and its schedule set as networks need them?",
            "A slipped digit does not raise an error; it only stops learning.",
            ("unusual-optimizer", "schedule-reaches-zero"),
        ),
        Step(
            "learning-rate",
            "Is the learning rate right?",
            "It is the one number that matters most.",
            ("learning-rate-too-high", "learning-rate-too-low"),
        ),
        Step(
            "memorise",
            "Can it learn one small batch by heart?",
            "A model that cannot has a bug; more data and more time will not help.",
            ("batch-not-memorised",),
        ),
        Step(
            "short-run",
            "Does a short training get anywhere, and by the inputs?",
            "A loss may fall for the wrong reasons.",
            ("learns-without-inputs", "update-ratio-off", "loss-metric-disagree", "worse-than-baseline"),
        ),
        Step(
            "speed",
            "Does training wait for the data?",
            "A faster model does not help a loop that waits.",
            ("loading-bottleneck",),
        ),
    ),
)
