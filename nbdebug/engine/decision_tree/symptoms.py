"""The symptoms as data: which steps to run first, and why.

The order within a symptom follows lecture 7 of Full Stack Deep Learning ("overfit a single batch": rises, explodes,
oscillates, plateaus) and the list of "37 reasons"; all other steps run afterwards.
"""

from __future__ import annotations

from nbdebug.engine.decision_tree.parts import Lead, Symptom

__all__ = ["AFTER_MEMORISING", "SYMPTOMS"]

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "does-not-run",
        "It does not run",
        "An exception stops the code before training starts.",
        (
            Lead(("readable", "one-pass"), "Runs your loader and your model, and locates the line that fails."),
            Lead(("independence",), "Code with a hardcoded batch size fails on the last, smaller batch."),
            Lead(("targets",), "Most errors in the loss are about the shape, dtype or range of the targets."),
        ),
        ("error-is-about-memory",),
        ("sample-fails", "empty-loader", "forward-fails", "incompatible-target-shape", "invalid-labels"),
    ),
    Symptom(
        "loss-is-nan",
        "The loss is NaN",
        "Some operation produces a non-finite value, and one optimizer step spreads it to all weights.",
        (
            Lead(("values",), "A NaN in the inputs propagates through every layer."),
            Lead(("finite",), "Locates the first module with finite inputs and non-finite outputs or gradients."),
            Lead(
                ("scale", "first-weights", "signal"), "Activations that grow from layer to layer eventually overflow."
            ),
            Lead(("loss-reads-outputs",), "A log or sqrt in the loss is non-finite for zero or negative values."),
            Lead(
                ("optimizer", "learning-rate"),
                "A NaN within the first hundred steps often means a learning rate that is too high.",
            ),
            Lead(("memorize",), "Training on one batch separates a training problem from a bad sample."),
        ),
        ("nan-when",),
        ("non-finite-inputs", "non-finite-forward", "non-finite-backward"),
    ),
    Symptom(
        "loss-does-not-fall",
        "The loss does not fall",
        "Training runs and prints a loss that does not decrease.",
        (
            Lead(
                ("memorize",),
                "Overfitting one batch separates a bug from a hard task; the loss curve shows where to look.",
            ),
            Lead(("own-loop", "every-parameter"), "optimizer.step() may be missing, or a layer may be untrained."),
            Lead(("loss-teaches", "loss-reads-outputs", "first-loss"), "A loss with the wrong inputs raises no error."),
            Lead(("learning-rate", "optimizer"), "The learning rate is the most important hyperparameter."),
            Lead(("scale", "first-weights", "signal"), "Layers without signal or gradient are not trained."),
            Lead(("response", "targets", "relation"), "The inputs must contain information about the labels."),
            Lead(("held-back", "capacity"), "Too much regularization or too little capacity ends in a plateau."),
        ),
        ("labels-fit", "solvable", "simplified"),
    ),
    Symptom(
        "stuck-at-chance",
        "It is stuck at chance level",
        "The loss stays near that of a constant prediction.",
        (
            Lead(("relation",), "Labels that do not belong to their inputs cannot be predicted better than by chance."),
            Lead(("loss-reads-outputs", "loss-teaches"), "A loss with the wrong inputs sends no useful gradient."),
            Lead(("memorize",), "A model that cannot overfit one batch has a bug; more training will not help."),
            Lead(("response", "values"), "The output has to depend on the inputs, and the inputs must vary."),
            Lead(("every-parameter", "signal"), "Frozen or dead layers leave only the bias of the output to train."),
            Lead(("own-loop", "learning-rate"), "Updates that are lost or far too small change no prediction."),
        ),
        ("labels-fit", "solvable", "simplified"),
    ),
    Symptom(
        "metric-is-bad",
        "The loss falls, but the metric is bad",
        "The model optimizes the loss, but not the metric.",
        (
            Lead(("short-run",), "Compares the loss with the metric, and the model with simple baselines."),
            Lead(
                ("targets", "loss-reads-outputs", "loss-scale"), "The loss may reward something other than the metric."
            ),
            Lead(("amount", "sampling"), "Rare classes contribute little to a loss that weights all samples equally."),
            Lead(("relation",), "Label noise limits the metric, and leaked labels invalidate it."),
            Lead(("modes",), "A model evaluated in train mode is evaluated with dropout."),
        ),
        ("labels-fit", "metric-wanted", "target-error", "known-result"),
        ("loss-metric-disagree", "class-imbalance", "worse-than-baseline"),
    ),
    Symptom(
        "bad-on-validation",
        "It is good on training data and bad on validation data",
        "The model overfits, or the two splits differ in distribution or preprocessing.",
        (
            Lead(("splits",), "Different distributions or preprocessing give different errors."),
            Lead(("modes", "independence", "positions"), "Validation uses eval mode and other batches than training."),
            Lead(("relation",), "A leaked label in the training inputs may be missing in validation."),
            Lead(("amount", "held-back"), "Little data and no regularization lead to overfitting."),
            Lead(("error-parts",), "Measures how much of the error is variance and how much is shift."),
        ),
        ("same-preparation", "target-error", "validation-used-often"),
        (
            "split-leakage",
            "split-shift",
            "split-treated-differently",
            "train-eval-gap",
            "target-leaks-into-inputs",
            "causal-leak",
        ),
    ),
    Symptom(
        "too-slow",
        "It is too slow",
        "The loop waits for data, or the model is larger than necessary.",
        (
            Lead(("speed",), "Measures how long a step waits for the DataLoader."),
            Lead(("own-loop",), "Accumulating the loss with its autograd graph makes every step slower than the last."),
            Lead(("sampling",), "Batches that are too small underuse the GPU."),
            Lead(("learning-rate",), "A learning rate that is too low needs many more steps."),
        ),
        ("slow-where",),
        ("loading-bottleneck", "graph-kept-alive", "learning-rate-too-low"),
    ),
    Symptom(
        "unknown",
        "I don't know: run everything",
        "Runs the whole tree from top to bottom: later steps assume that earlier ones pass.",
        (),
        ("labels-fit", "solvable", "simplified", "target-error", "known-result"),
    ),
)

# The outcome of overfitting one batch, and which steps follow (Full Stack Deep Learning, lecture 7).
AFTER_MEMORISING: dict[str, Lead] = {
    "rises": Lead(("loss-reads-outputs", "learning-rate"), "a loss that rises usually has a flipped sign"),
    "explodes": Lead(
        ("finite", "learning-rate"),
        "a loss that explodes means numerical instability or a learning rate that is too high",
    ),
    "not-finite": Lead(
        ("finite", "learning-rate"),
        "a loss that explodes means numerical instability or a learning rate that is too high",
    ),
    "oscillates": Lead(
        ("learning-rate", "relation", "reading"),
        "a loss that oscillates needs a lower learning rate, or has wrong labels or augmentation",
    ),
    "plateaus": Lead(
        ("every-parameter", "learning-rate", "held-back", "loss-reads-outputs", "values"),
        "a loss that plateaus needs a higher learning rate or less regularization, or has a bug in loss or data",
    ),
}
