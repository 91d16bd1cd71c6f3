"""What to do about each share of the error, in the order of the Full Stack Deep Learning lecture."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ADVICE", "Advice"]


@dataclass(frozen=True)
class Advice:
    """An ordered list of things to try for one share of the error."""

    part: str
    says: str
    steps: tuple[str, ...]


ADVICE = {
    advice.part: advice
    for advice in (
        Advice(
            "avoidable bias",
            "The model underfits: reduce bias first, in this order.",
            (
                "Make the model bigger: more layers, or more units in each.",
                "Regularise less: dropout, weight decay, augmentation.",
                "Look at the errors on the training data: nbdebug.analyse_errors(model, train).",
                "Take an architecture that is known to solve this kind of problem.",
                "Tune: the learning rate first; nbdebug.tune does it.",
                "Add features.",
            ),
        ),
        Advice(
            "variance",
            "The model overfits: reduce variance, in this order.",
            (
                "Get more training data.",
                "Add normalisation layers.",
                "Augment the data.",
                "Regularise more: weight decay, dropout.",
                "Look at the errors on the validation data: nbdebug.analyse_errors(model, val).",
                "Take another architecture, or tune this one.",
                "As the last resort: stop early, remove features, make the model smaller.",
            ),
        ),
        Advice(
            "distribution shift",
            "The data that counts differs from the data it learned from.",
            (
                "Look at the errors on val_shifted and collect training data like them: "
                "nbdebug.analyse_errors(model, val_shifted, against=val).",
                "Synthesise data like them.",
                "Adapt to the new domain: fine-tune on what labelled data there is of it.",
            ),
        ),
        Advice(
            "validation overfitting",
            "The validation set was used too often, or is too small.",
            ("Draw a new validation set from the test's distribution.", "Make it larger."),
        ),
    )
}
