"""What to do about each part of the error, in the order of lecture 7 of Full Stack Deep Learning, as data."""

from __future__ import annotations

__all__ = ["IMPROVEMENTS"]

# The lists are tried from the top; what stands later costs more, is riskier, or hides the trouble.
IMPROVEMENTS: dict[str, tuple[str, ...]] = {
    "underfitting": (
        "Make the model larger: more layers, more units a layer.",
        "Take regularisation away.",
        "Look at the worst samples, and see what they have in common.",
        "Choose another architecture, closer to the state of the art: good, but new bugs come with it.",
        "Tune the hyper-parameters, the learning rate first.",
        "Add features, if all else fails.",
    ),
    "overfitting": (
        "Collect more training data: the soundest cure.",
        "Normalise: batch or layer norm.",
        "Augment the data.",
        "Regularise: dropout, weight decay; average several models.",
        "Look at the worst samples, and see what they have in common.",
        "Choose another architecture, closer to the state of the art.",
        "Tune the hyper-parameters.",
        "Stop early, drop features that say little or repeat others, make the model smaller: rather not.",
    ),
    "distribution shift": (
        "Look at the worst samples of the set that is like the test data, and collect training data like them.",
        "Where such data cannot be had, synthesise them.",
        "Adapt: fine-tune on the few labelled samples of the target (supervised), or match the two distributions with "
        "unlabelled ones (unsupervised; harder).",
    ),
    "validation overfitting": ("Draw a new validation set, and estimate the error afresh.",),
}
