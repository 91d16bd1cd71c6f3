"""What to do about each part of the error, in the order of lecture 7 of Full Stack Deep Learning, as data."""

from __future__ import annotations

__all__ = ["IMPROVEMENTS", "LESS_REGULARISATION", "MORE_NORMALISATION"]

# What a look at the model can say something about.
LESS_REGULARISATION = "Take regularisation away: dropout, weight decay, augmentation."
MORE_NORMALISATION = "Normalise: batch or layer norm."

# The lists are tried from the top; what stands later costs more, is riskier, or hides the trouble.
IMPROVEMENTS: dict[str, tuple[str, ...]] = {
    "underfitting": (
        "Make the model larger: more layers, more units a layer.",
        LESS_REGULARISATION,
        "Look at the worst training samples, and see what they have in common: nbdebug.analyse_errors(model, train).",
        "Choose another architecture, closer to the state of the art: good, but new bugs come with it.",
        "Tune the hyper-parameters, the learning rate first: nbdebug.tune.",
        "Add features, if all else fails.",
    ),
    "overfitting": (
        "Get more training data: the soundest cure.",
        MORE_NORMALISATION,
        "Augment the data.",
        "Regularise: dropout, weight decay; average several models.",
        "Look at the worst validation samples, and see what they have in common: nbdebug.analyse_errors(model, val).",
        "Choose another architecture, closer to the state of the art.",
        "Tune the hyper-parameters: nbdebug.tune.",
        "Stop early, drop features that say little or repeat others, make the model smaller: rather not.",
    ),
    "distribution shift": (
        "Look at the worst samples of the set that is like the test data, and collect training data like them: "
        "nbdebug.analyse_errors(model, val_shifted, against=val).",
        "Where such data cannot be had, synthesise them.",
        "Adapt: fine-tune on the few labelled samples of the target (supervised), or match the two distributions with "
        "unlabelled ones (unsupervised; harder).",
    ),
    "validation overfitting": ("Draw a new validation set, larger if you can, and estimate the error afresh.",),
}
