"""Questions about the expected and the achieved results, as data."""

from __future__ import annotations

from nbdebug.engine.decision_tree.improving import IMPROVEMENTS
from nbdebug.engine.decision_tree.parts import Follow, Question

__all__ = ["QUESTIONS_ON_RESULTS"]


def _in_order(part: str) -> str:
    """Return the ordered list of fixes for one part of the error as text."""
    return "In this order: " + " ".join(f"{number}. {item}" for number, item in enumerate(IMPROVEMENTS[part], 1))


QUESTIONS_ON_RESULTS: tuple[Question, ...] = (
    Question(
        "still-falling",
        "Was the loss still falling steadily when you stopped?",
        "Some models need many epochs before their predictions are useful.",
        "yes/no",
        "live",
        (Follow("yes", "Train longer: a loss that still falls has not converged.", ("learning-rate",)),),
        look=("watch",),
    ),
    Question(
        "metric-wanted",
        "Which metric do you want to improve?",
        "The loss is only a differentiable proxy for the metric. With imbalanced classes, accuracy is a poor metric.",
        "text",
        "short-run",
        (Follow("any", "Log it for training and validation data, next to the loss.", ("short-run", "amount")),),
        look=("loss-metric-disagree", "class-imbalance"),
    ),
    Question(
        "target-error",
        "What is the target error (human level, a paper, or an earlier model)?",
        "The gap to it is the avoidable bias; without a target it is unknown whether an error of 8 % is good or bad.",
        "number",
        "error-parts",
        (Follow("any", "Compare it with the error on the training data first.", ("error-parts", "short-run")),),
        look=("decompose", "worse-than-baseline"),
        unit="in the unit of your error, such as 0.08",
    ),
    Question(
        "known-result",
        "What reference result do you have?",
        "A known result separates a bug from a hard task; the closer to your setup, the better.",
        "choice",
        "known-result",
        (
            Follow(
                "an official implementation on similar data",
                "Step through both line by line until the outputs match, then compare the results.",
                ("known-result",),
            ),
            Follow(
                "an official implementation on a benchmark",
                "Run your model on the benchmark, and step through both line by line.",
                ("known-result",),
            ),
            Follow(
                "an unofficial implementation",
                "Compare line by line, but with care: unofficial implementations often have bugs.",
                ("known-result",),
            ),
            Follow(
                "a paper without code",
                "It shows what performance to expect; run your model on its benchmark.",
                ("short-run", "error-parts"),
            ),
            Follow(
                "a similar model on similar data",
                "It gives a rough idea of what to expect.",
                ("short-run", "error-parts"),
            ),
            Follow(
                "nothing",
                "Use simple baselines: the mean, a linear model, nearest neighbors, a random forest.",
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
        "What do your training, validation and test errors show?",
        "Fix underfitting first, then overfitting, then distribution shift: each has its own list of fixes.",
        "choice",
        "error-parts",
        tuple(Follow(part, _in_order(part), ("error-parts", "tuning")) for part in IMPROVEMENTS),
        choices=(*IMPROVEMENTS, "unsure"),
        look=("decompose",),
    ),
    Question(
        "validation-used-often",
        "Is the validation set small, or have you tuned many hyperparameters on it?",
        "Then the hyperparameters overfit the validation set.",
        "yes/no",
        "error-parts",
        (Follow("yes", IMPROVEMENTS["validation overfitting"][0], ("error-parts", "splits")),),
        look=("decompose",),
    ),
    Question(
        "test-is-other",
        "Will the model be used on data that differs from the training data?",
        "Night instead of day, another hospital: one validation set per domain separates shift from overfitting.",
        "yes/no",
        "error-parts",
        (Follow("yes", _in_order("distribution shift"), ("splits", "error-parts")),),
        look=("split-shift", "decompose"),
    ),
    Question(
        "tuned",
        "Which hyperparameters have you tuned?",
        "Learning rate, schedule, loss and layer size matter most; the optimizer's other hyperparameters and the "
        "batch size least. Use random search over wide ranges, narrow them around the best, avoid grid search, and "
        "use Bayesian optimization once the code is stable.",
        "text",
        "tuning",
        (Follow("any", "Tune the others the same way, the most sensitive first.", ("tuning",)),),
        look=("tune", "unusual-optimizer"),
    ),
    Question(
        "read-again",
        "Have you reviewed your own code line by line, including every branch?",
        "Code review finds bugs that no tool detects; unit tests keep them fixed.",
        "yes/no",
        "inside",
        (
            Follow(
                "no",
                "Do it now: add asserts for every assumption and clear error messages, and step through unclear code "
                "in a debugger.",
                ("own-loop", "inside"),
            ),
        ),
        look=("tap",),
    ),
)
