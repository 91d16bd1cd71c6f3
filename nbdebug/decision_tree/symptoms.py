"""What people come with, as data: where to look first, and why there.

The order within a symptom follows lecture 7 of Full Stack Deep Learning ("overfit a single batch": rises, explodes,
oscillates, plateaus) and the list of "37 reasons"; every other step is walked afterwards.
"""

from __future__ import annotations

from nbdebug.decision_tree.parts import Lead, Symptom

__all__ = ["AFTER_MEMORISING", "SYMPTOMS"]

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "does-not-run",
        "It does not run",
        "An error stops it before anything is learned.",
        (
            Lead(("readable", "one-pass"), "These run your loader and your model, and name the place that fails."),
            Lead(("independence",), "Code that is written for one batch size fails at the last, shorter batch."),
            Lead(("targets",), "Most errors at the loss are about the shape, the type or the range of the targets."),
        ),
        ("error-is-about-memory",),
        ("sample-fails", "empty-loader", "forward-fails", "target-shape-mismatch", "invalid-labels"),
    ),
    Symptom(
        "loss-is-nan",
        "The loss is NaN",
        "Somewhere a number stops being finite, and every weight follows in one step.",
        (
            Lead(("values",), "A NaN in the data makes everything after it NaN."),
            Lead(("finite",), "The first module that makes a NaN from finite numbers is named, forward or back."),
            Lead(("scale", "first-weights", "signal"), "Numbers that grow from layer to layer overflow in the end."),
            Lead(("loss-reads-outputs",), "A logarithm or a root in the loss fails where it gets zero or less."),
            Lead(("optimizer", "learning-rate"), "A NaN within the first hundred steps is often a step too large."),
            Lead(("memorise",), "Training on one batch shows whether it comes from the steps or from a sample."),
        ),
        ("nan-when",),
        ("non-finite-inputs", "non-finite-forward", "non-finite-backward"),
    ),
    Symptom(
        "loss-does-not-fall",
        "The loss does not fall",
        "It runs, prints a loss, and learns nothing.",
        (
            Lead(("memorise",), "One small batch tells a bug from a hard problem, and its curve says where to look."),
            Lead(("own-loop", "every-parameter"), "A step that is never taken, or a layer that nobody trains."),
            Lead(("loss-teaches", "loss-reads-outputs", "first-loss"), "A loss that gets the wrong thing runs, too."),
            Lead(("learning-rate", "optimizer"), "The rate is the one number that matters most."),
            Lead(("scale", "first-weights", "signal"), "Where signal or gradient is lost, nothing is learned."),
            Lead(("response", "targets", "relation"), "Nothing can be learned that is not in the data."),
            Lead(("held-back", "capacity"), "Too much regularisation, or too small a network, ends in a plateau."),
        ),
        ("labels-fit", "solvable", "simplified"),
    ),
    Symptom(
        "metric-is-bad",
        "The loss falls, but the metric is bad",
        "Something is learned, and not what you want.",
        (
            Lead(("short-run",), "Compares the loss with the metric, and the model with simple ones."),
            Lead(("targets", "loss-reads-outputs", "loss-scale"), "A loss may reward something else than you count."),
            Lead(("amount", "sampling"), "Rare classes vanish in a loss that counts every sample alike."),
            Lead(("relation",), "Noisy labels set a bound, and a giveaway leads astray."),
            Lead(("modes",), "A model that is judged in training mode is judged with its dropout on."),
        ),
        ("labels-fit", "metric-wanted", "target-error", "known-result"),
        ("loss-metric-disagree", "class-imbalance", "worse-than-baseline"),
    ),
    Symptom(
        "bad-on-validation",
        "It is good on training data and bad on validation data",
        "Either it learned by heart, or the two are not alike, or they are not treated alike.",
        (
            Lead(("splits",), "Data that differ, or were prepared differently, cannot give the same error."),
            Lead(("modes", "independence"), "Validation runs in another mode and with other batches than training."),
            Lead(("relation",), "What gives the answer away in training may be missing afterwards."),
            Lead(("amount", "held-back"), "Little data and no regularisation is learned by heart."),
            Lead(("error-parts",), "Says how much of the error is variance and how much is shift."),
        ),
        ("same-preparation", "target-error", "validation-used-often"),
        ("split-leakage", "split-shift", "train-eval-gap", "target-leaks-into-inputs", "causal-leak"),
    ),
    Symptom(
        "too-slow",
        "It is too slow",
        "Either the loop waits for its data, or the network is larger than it has to be.",
        (
            Lead(("speed",), "Measures how long a step waits for the loader."),
            Lead(("own-loop",), "A loss that is summed with its graph makes every step slower than the one before."),
            Lead(("sampling",), "Batches that are too small leave the machine idle."),
            Lead(("learning-rate",), "Training that takes many steps may only take steps that are too small."),
        ),
        ("slow-where",),
        ("loading-bottleneck", "graph-kept-alive", "learning-rate-too-low"),
    ),
    Symptom(
        "unknown",
        "I don't know: run everything",
        "The whole tree from top to bottom: what comes later makes sense only when what comes before is right.",
        (),
        ("labels-fit", "solvable", "simplified", "target-error", "known-result"),
    ),
)

# How the training on one batch went, and where that leads (Full Stack Deep Learning, lecture 7).
AFTER_MEMORISING: dict[str, Lead] = {
    "rises": Lead(("loss-reads-outputs", "learning-rate"), "an error that goes up is most often a flipped sign"),
    "explodes": Lead(("finite", "learning-rate"), "an error that explodes is numerical, or the rate is too high"),
    "not-finite": Lead(("finite", "learning-rate"), "an error that explodes is numerical, or the rate is too high"),
    "oscillates": Lead(
        ("learning-rate", "relation", "reading"),
        "an error that oscillates asks for a lower rate, and for a look at labels and augmentation",
    ),
    "plateaus": Lead(
        ("every-parameter", "learning-rate", "held-back", "loss-reads-outputs", "values"),
        "an error that stays where it is asks for a higher rate, less regularisation, and a look at loss and data",
    ),
}
