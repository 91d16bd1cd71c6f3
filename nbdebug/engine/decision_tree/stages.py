"""The stages as data: the labels and questions of their steps, and the checks that answer each of them."""

from __future__ import annotations

from nbdebug.engine.decision_tree.begin_and_end import IMPROVE, START_SIMPLE, WATCH
from nbdebug.engine.decision_tree.learning import LEARN
from nbdebug.engine.decision_tree.parts import Stage, Step

__all__ = ["TREE"]

TREE: tuple[Stage, ...] = (
    START_SIMPLE,
    Stage(
        "data",
        "Data",
        (
            Step(
                "readable",
                "Loading",
                "Does every sample load and collate?",
                "An empty loader, or one that raises halfway through, ends training before it starts.",
                ("sample-fails", "empty-loader"),
            ),
            Step(
                "values",
                "Input values",
                "Are any inputs NaN, constant, truncated or in the wrong layout?",
                "Most bugs are in the data, and the model raises no error for bad inputs.",
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
                "Normalization",
                "Are inputs near unit scale at the first layer?",
                "Default initialization and default learning rates assume inputs with zero mean and unit variance.",
                ("unnormalized-inputs", "feature-scales-differ"),
            ),
            Step(
                "sampling",
                "Sampling",
                "Are the samples shuffled, without duplicates, and is nothing dropped?",
                "Correlated or repeated batches give biased gradient estimates.",
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
                "Targets",
                "Are the classes, shapes and dtypes of the targets valid for this loss?",
                "Broadcasting lets many losses run on targets of the wrong shape without an error.",
                ("incompatible-target-shape", "invalid-labels", "constant-targets", "unscaled-targets"),
            ),
            Step(
                "amount",
                "Size and balance",
                "Are there enough samples of every class?",
                "Rare classes contribute little to the loss and are learned last or never.",
                ("class-imbalance", "too-few-examples"),
            ),
            Step(
                "reading",
                "Augmentation",
                "Are labels preserved, workers seeded, and stored samples not mutated?",
                "Preprocessing that destroys labels or changes the stored data adds noise that no model can fit.",
                ("preprocessing-mutates-data", "destructive-augmentation", "worker-rng-duplicates"),
            ),
            Step(
                "relation",
                "Label alignment",
                "Do the inputs predict the labels, without leaking them?",
                "Shuffled, noisy or leaked labels make the training loss meaningless.",
                ("target-leaks-into-inputs", "labels-unrelated-to-inputs", "dense-targets-misaligned", "noisy-labels"),
            ),
            Step(
                "splits",
                "Train/val split",
                "Are the splits disjoint, with the same distribution and the same preprocessing?",
                "Otherwise the validation error does not estimate the error on new data.",
                ("split-leakage", "split-shift"),
            ),
        ),
    ),
    Stage(
        "run",
        "Forward and backward",
        (
            Step(
                "one-pass",
                "First pass",
                "Does one batch run forward and backward?",
                "No other check can run before a forward and a backward pass succeed.",
                ("forward-fails",),
                ("explain_error",),
            ),
            Step(
                "finite",
                "NaN and Inf",
                "Where is the first non-finite value, in the forward or the backward pass?",
                "A single NaN reaches every weight within one optimizer step.",
                ("non-finite-forward", "non-finite-backward"),
            ),
            Step(
                "slopes",
                "Custom gradients",
                "Do custom gradients match finite differences?",
                "An optimizer that follows a wrong gradient does not minimize the loss.",
                ("custom-backward-wrong",),
            ),
            Step(
                "response",
                "Input dependence",
                "Does the output use every input?",
                "An input without effect on the output cannot improve the prediction.",
                ("outputs-identical", "inputs-ignored", "reshape-mixes-axes"),
            ),
            Step(
                "independence",
                "Batch independence",
                "Does one sample affect the output for another?",
                "A prediction must not depend on the other samples of the batch.",
                ("batch-mixing", "causal-leak", "hardcoded-batch-size"),
            ),
            Step(
                "modes",
                "Train/eval mode",
                "Are dropout, BatchNorm and determinism right in train and eval mode?",
                "The model is trained in one mode and used in the other.",
                ("left-in-eval-mode", "nondeterministic-eval", "batchnorm-misused", "train-eval-gap"),
            ),
            Step(
                "repeat",
                "Reproducibility",
                "Does the same seed give the same result, and is the checkpoint loaded?",
                "Runs that are not reproducible cannot be compared.",
                ("checkpoint-not-loaded", "not-reproducible"),
            ),
        ),
    ),
    Stage(
        "start",
        "Loss and initialization",
        (
            Step(
                "loss-teaches",
                "Loss gradient",
                "Does the loss send a useful gradient?",
                "A loss without a gradient, or one that ignores the targets, cannot train the model.",
                ("loss-not-differentiable", "loss-ignores-targets", "targets-drawn-at-random"),
            ),
            Step(
                "loss-reads-outputs",
                "Loss inputs",
                "Does the loss get logits or probabilities as it expects, with the right dim and activation?",
                "A loss that receives the wrong kind of outputs or targets still runs, but optimizes something else.",
                (
                    "loss-sign-flipped",
                    "loss-unbounded-below",
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
                "Initial loss",
                "Is the initial loss at chance level?",
                "An untrained classifier should have a loss of about log(number of classes).",
                ("initial-loss-off", "output-bias-ignores-prior"),
            ),
            Step(
                "loss-scale",
                "Loss balance",
                "Are the reduction, the class weights and the loss terms balanced?",
                "A summed loss grows with the batch size, and the largest loss term dominates the gradient.",
                (
                    "loss-sums-over-batch",
                    "loss-terms-reduced-differently",
                    "loss-terms-unbalanced",
                    "class-weights-inverted",
                ),
            ),
            Step(
                "every-parameter",
                "Trainable parameters",
                "Is every parameter registered, unfrozen and in the optimizer?",
                "A parameter without a gradient, or outside the optimizer, keeps its initial value.",
                (
                    "unregistered-parameters",
                    "frozen-parameters",
                    "parameters-missing-from-optimizer",
                    "untrained-parameters",
                ),
            ),
            Step(
                "first-weights",
                "Weight initialization",
                "Are the scale and the symmetry of the initial weights right?",
                "Identical units get identical gradients, and a wrong scale compounds with every layer.",
                ("symmetric-initialization", "initialization-off-scale"),
            ),
            Step(
                "signal",
                "Signal propagation",
                "Are layers dead or saturated, or do gradients vanish or explode?",
                "Layers before a dead layer, or with vanishing gradients, are not trained.",
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
                "Capacity",
                "Does the model have the nonlinearity and the width that the task requires?",
                "Training cannot make up for a missing nonlinearity or a bottleneck.",
                ("missing-nonlinearity", "bottleneck-too-narrow"),
            ),
            Step(
                "held-back",
                "Regularization",
                "Is dropout or weight decay too strong?",
                "Excessive regularization causes underfitting.",
                ("excessive-dropout", "excessive-weight-decay"),
            ),
        ),
    ),
    LEARN,
    WATCH,
    IMPROVE,
)
