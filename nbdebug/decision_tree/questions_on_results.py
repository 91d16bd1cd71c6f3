"""Questions on what a model should reach and what it has reached, as data."""

from __future__ import annotations

from nbdebug.decision_tree.improving import IMPROVEMENTS
from nbdebug.decision_tree.parts import Follow, Question

__all__ = ["QUESTIONS_ON_RESULTS"]


def _in_order(part: str) -> str:
    """Give the list of what to do about one part of the error as a text."""
    return "In this order: " + " ".join(f"{number}. {item}" for number, item in enumerate(IMPROVEMENTS[part], 1))


QUESTIONS_ON_RESULTS: tuple[Question, ...] = (
    Question(
        "still-falling",
        "When you stopped, was the loss still falling steadily?",
        "Some networks need a long time before their predictions make sense.",
        "yes/no",
        "live",
        (Follow("yes", "Give it time: nothing is wrong with a loss that falls.", ("learning-rate",)),),
        look=("watch",),
    ),
    Question(
        "metric-wanted",
        "Which number do you want to improve?",
        "One metric decides; the loss is only what can be differentiated. Where the classes are uneven, accuracy says "
        "little.",
        "text",
        "short-run",
        (Follow("any", "Log it for training and validation data beside the loss.", ("short-run", "amount")),),
        look=("loss-metric-disagree", "class-imbalance"),
    ),
    Question(
        "target-error",
        "What error would be good (from people, a paper, or an earlier model)?",
        "The difference to it is the part of the error that could be avoided; without it nobody knows whether 8 % is "
        "a bug or a triumph.",
        "number",
        "error-parts",
        (Follow("any", "Compare it with the error on the training data first.", ("error-parts", "short-run")),),
        look=("decompose", "worse-than-baseline"),
        unit="in the unit of your error, such as 0.08",
    ),
    Question(
        "known-result",
        "What do you have to compare with?",
        "A known result tells a bug from a hard problem; the nearer it is to your case, the more it says.",
        "choice",
        "known-result",
        (
            Follow(
                "an official implementation on similar data",
                "Walk through both line by line until the outputs are the same, then compare the results.",
                ("known-result",),
            ),
            Follow(
                "an official implementation on a benchmark",
                "Run your model on the benchmark, and walk through both line by line.",
                ("known-result",),
            ),
            Follow(
                "an unofficial implementation",
                "The same, with less trust: most of them have bugs of their own.",
                ("known-result",),
            ),
            Follow(
                "a paper without code",
                "It says what performance to expect; try your model on its benchmark.",
                ("short-run", "error-parts"),
            ),
            Follow(
                "a similar model on similar data",
                "It gives a general idea of what to expect.",
                ("short-run", "error-parts"),
            ),
            Follow(
                "nothing",
                "Then simple baselines: the mean, a linear model, nearest neighbours, a random forest.",
                ("short-run", "relation"),
            ),
        ),
        choices=(
            "an official implementation on similar data",
            "an official implementation on a benchmark",
            "an unofficial implementation",
            "a paper without code",
            "a similar model on similar data",
            "nothing",
        ),
        look=("compare", "worse-than-baseline"),
    ),
    Question(
        "largest-part",
        "What do your errors on training, validation and test data show most?",
        "First underfitting, then overfitting, then shift: each has its own cures, in an order of their own.",
        "choice",
        "error-parts",
        tuple(Follow(part, _in_order(part), ("error-parts", "tuning")) for part in IMPROVEMENTS),
        choices=(*IMPROVEMENTS, "unsure"),
        look=("decompose",),
    ),
    Question(
        "validation-used-often",
        "Have you chosen many settings by the same validation set, or is it small?",
        "Then it has been learned, too, by you.",
        "yes/no",
        "error-parts",
        (Follow("yes", IMPROVEMENTS["validation overfitting"][0], ("error-parts", "splits")),),
        look=("decompose",),
    ),
    Question(
        "test-is-other",
        "Will the model be used on data that differ from the training data?",
        "Night after day, another hospital, next year: a validation set of each kind tells shift from overfitting.",
        "yes/no",
        "error-parts",
        (Follow("yes", _in_order("distribution shift"), ("splits", "error-parts")),),
        look=("split-shift", "decompose"),
    ),
    Question(
        "tuned",
        "Which settings have you tried to vary?",
        "Good defaults are a good start; the learning rate, its schedule, the loss and the size of the layers matter "
        "most, the optimizer's own numbers and the batch size least. Vary them over wide ranges at random, narrow "
        "the ranges around the best, and leave grids alone; Bayesian search when the code has settled.",
        "text",
        "tuning",
        (Follow("any", "Vary the others the same way, the most sensitive first.", ("tuning",)),),
        look=("tune", "unusual-optimizer"),
    ),
    Question(
        "read-again",
        "Have you read your own code once more, slowly, and asked of every if whether it does what it should?",
        "Tools find much, and reading finds the rest; a test for each small piece keeps it found.",
        "yes/no",
        "inside",
        (
            Follow(
                "no",
                "Do it now, with asserts where you were sure, names on everything, and an error message on every way "
                "out; step through it in a debugger where you are not.",
                ("own-loop", "inside"),
            ),
        ),
        look=("tap",),
    ),
)
