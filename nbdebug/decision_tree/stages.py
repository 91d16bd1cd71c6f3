"""The stages as data: their questions, and the checks that answer each of them."""

from __future__ import annotations

from nbdebug.decision_tree.begin_and_end import IMPROVE, START_SIMPLE, WATCH
from nbdebug.decision_tree.learning import LEARN
from nbdebug.decision_tree.parts import Stage, Step

__all__ = ["TREE"]

TREE: tuple[Stage, ...] = (
    START_SIMPLE,
    Stage(
        "data",
        "Look at the data",
        (
            Step(
                "readable",
                "Can every sample be read?",
                "A loader that gives nothing, or fails in the middle, ends the training before it begins.",
                ("sample-fails", "empty-loader"),
            ),
            Step(
                "values",
                "Are the inputs what you think they are?",
                "Most bugs are in the data, and the network never complains about what it is fed.",
                (
                    "non-finite-inputs",
                    "truncated-inputs",
                    "constant-inputs",
                    "misread-image-layout",
                    "padding-dominates",
                ),
            ),
            Step(
                "scale",
                "Do the inputs arrive with about unit size?",
                "Weights are initialised for inputs of unit size, and learning rates are chosen for them.",
                ("unnormalised-inputs", "feature-scales-apart"),
            ),
            Step(
                "sampling",
                "Does every sample get its turn, in no order?",
                "A step is only as good as the batch it is computed from.",
                (
                    "repeated-batches",
                    "duplicate-samples",
                    "samples-dropped",
                    "unshuffled-loader",
                    "single-class-batches",
                    "extreme-batch-size",
                ),
            ),
            Step(
                "targets",
                "Are the targets what the loss takes them for?",
                "A loss compares whatever it is given, in whatever shape it comes.",
                ("target-shape-mismatch", "invalid-labels", "constant-targets", "unscaled-targets"),
            ),
            Step(
                "amount",
                "Is there enough data, of every class?",
                "What is rare in the data is rare in the loss, and is learned last or never.",
                ("class-imbalance", "too-few-examples"),
            ),
            Step(
                "reading",
                "Does reading a sample leave it as it is, and is chance drawn as it should be?",
                "What changes from epoch to epoch without being meant to cannot be learned.",
                ("data-changed-by-reading", "destructive-augmentation", "worker-twins"),
            ),
            Step(
                "relation",
                "Do inputs and labels belong together, and does no input give the answer away?",
                "A model learns what is there: chance, mistakes and giveaways as well.",
                ("target-leaks-into-inputs", "labels-unrelated-to-inputs", "noisy-labels"),
            ),
            Step(
                "splits",
                "Are training and validation data apart, and alike?",
                "Only then does the validation error say anything about new data.",
                ("split-leakage", "split-shift"),
            ),
        ),
    ),
    Stage(
        "run",
        "Make it run",
        (
            Step(
                "one-pass",
                "Does one batch go through the model, the loss and back?",
                "Nothing can be learned before one pass goes through.",
                ("forward-fails",),
                ("explain_error",),
            ),
            Step(
                "finite",
                "Do all numbers stay finite, forward and back?",
                "One NaN spreads to every weight in one step.",
                ("non-finite-forward", "non-finite-backward"),
            ),
            Step(
                "slopes",
                "Are gradients that somebody wrote by hand right?",
                "A wrong gradient leads somewhere else than down.",
                ("custom-backward-wrong",),
            ),
            Step(
                "response",
                "Do the outputs depend on every input?",
                "What has no influence on the answer cannot help to find it.",
                ("outputs-identical", "inputs-ignored"),
            ),
            Step(
                "independence",
                "Is each sample treated on its own?",
                "A prediction must not depend on what else is in the batch.",
                ("batch-mixing", "causal-leak", "batch-size-hardwired"),
            ),
            Step(
                "modes",
                "Do training and eval mode do what they should?",
                "Training happens in one mode, and use in the other.",
                ("left-in-eval-mode", "eval-not-deterministic", "batchnorm-misused", "train-eval-gap"),
            ),
            Step(
                "repeat",
                "Does the same start give the same result?",
                "What cannot be repeated cannot be compared, and what was not loaded is not there.",
                ("checkpoint-not-loaded", "not-reproducible"),
            ),
        ),
    ),
    Stage(
        "start",
        "Start right",
        (
            Step(
                "loss-teaches",
                "Does the loss say anything to the model?",
                "What has no gradient, or does not look at the targets, teaches nothing.",
                ("loss-not-differentiable", "loss-ignores-targets"),
            ),
            Step(
                "loss-reads-outputs",
                "Does the loss get what it expects?",
                "A loss that gets the wrong kind of outputs or targets runs, and teaches something else.",
                (
                    "loss-sign-flipped",
                    "softmax-over-wrong-dim",
                    "softmax-before-cross-entropy",
                    "probabilities-into-nll",
                    "sigmoid-before-bce-with-logits",
                    "logits-into-bce",
                    "wrong-loss-for-task",
                    "clamped-output",
                ),
            ),
            Step(
                "first-loss",
                "Is the first loss what guessing would give?",
                "A model that knows nothing should say that nothing is known.",
                ("initial-loss-off", "output-bias-ignores-prior"),
            ),
            Step(
                "loss-scale",
                "Do the samples and the terms of the loss have fair weights?",
                "A sum grows with the batch, and the largest term decides alone.",
                ("loss-sums-over-batch", "loss-terms-unbalanced"),
            ),
            Step(
                "every-parameter",
                "Does every parameter learn?",
                "What no gradient reaches or no optimizer holds stays as it was initialised.",
                (
                    "unregistered-parameters",
                    "frozen-parameters",
                    "parameters-missing-from-optimizer",
                    "untrained-parameters",
                ),
            ),
            Step(
                "first-weights",
                "Do the weights start right?",
                "Equal units stay equal, and a wrong scale grows with every layer.",
                ("symmetric-initialisation", "initialisation-off-scale"),
            ),
            Step(
                "signal",
                "Do signal and gradient get through every layer?",
                "A layer that hears or passes on nothing cannot learn.",
                (
                    "dead-units",
                    "saturated-units",
                    "activations-off-scale",
                    "vanishing-gradients",
                    "exploding-gradients",
                ),
            ),
            Step(
                "capacity",
                "Can this network compute what is asked of it?",
                "Training cannot add what the architecture leaves out.",
                ("missing-nonlinearity", "bottleneck-too-narrow"),
            ),
            Step(
                "held-back",
                "Is it held back too much?",
                "Regularisation that is stronger than the data leaves nothing to learn.",
                ("excessive-dropout", "excessive-weight-decay"),
            ),
        ),
    ),
    LEARN,
    WATCH,
    IMPROVE,
)
