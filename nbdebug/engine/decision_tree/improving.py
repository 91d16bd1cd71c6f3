"""How to reduce each part of the error, in the order of lecture 7 of Full Stack Deep Learning, as data."""

from __future__ import annotations

__all__ = ["IMPROVEMENTS", "LESS_REGULARISATION", "MORE_NORMALISATION"]

# Those that can be matched to the layers of the model.
LESS_REGULARISATION = "Reduce regularization: dropout, weight decay, augmentation."
MORE_NORMALISATION = "Add normalization: BatchNorm or LayerNorm."

# Try the lists from the top; later items cost more, are riskier, or hide the problem.
IMPROVEMENTS: dict[str, tuple[str, ...]] = {
    "underfitting": (
        "Make the model larger: more layers, more units per layer.",
        LESS_REGULARISATION,
        "Inspect the training samples with the highest loss for a pattern: nbdebug.analyse_errors(model, train).",
        "Choose an architecture closer to the state of the art. It helps, but can add new bugs.",
        "Tune the hyperparameters, starting with the learning rate: nbdebug.tune.",
        "Add input features.",
    ),
    "overfitting": (
        "Get more training data, the most reliable fix.",
        MORE_NORMALISATION,
        "Add data augmentation.",
        "Add regularization: dropout, weight decay, or an ensemble.",
        "Inspect the validation samples with the highest loss for a pattern: nbdebug.analyse_errors(model, val).",
        "Choose an architecture closer to the state of the art.",
        "Tune the hyperparameters: nbdebug.tune.",
        "Last resort: early stopping, removing redundant input features, or a smaller model.",
    ),
    "distribution shift": (
        "Inspect the highest-loss samples of the set that matches the test data, and collect similar training data: "
        "nbdebug.analyse_errors(model, val_shifted, against=val).",
        "If such data is not available, synthesize it.",
        "Use domain adaptation: fine-tune on a few labeled target samples (supervised), or align the two distributions "
        "with unlabeled ones (unsupervised, harder).",
    ),
    "validation overfitting": ("Resample the validation set, larger if possible, and measure the error again.",),
}
