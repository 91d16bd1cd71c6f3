"""The questions that only the user can answer, as data: why each is asked, and what follows from each answer."""

from __future__ import annotations

from nbdebug.engine.decision_tree.parts import Follow, Question
from nbdebug.engine.decision_tree.questions_on_results import QUESTIONS_ON_RESULTS

__all__ = ["QUESTIONS"]

QUESTIONS: tuple[Question, ...] = (
    Question(
        "simplified",
        "Is this already the simplest setup: a small standard model, a standard loss, no regularization, no "
        "augmentation, no learning-rate schedule, a dataset that fits in memory?",
        "A component that is switched off cannot be the broken one. Add them one at a time once the rest works.",
        "yes/no",
        "simple",
        (
            Follow(
                "no",
                "Turn off everything that is optional. Start with a small CNN for images, an RNN or 1D CNN for "
                "sequences, one hidden layer for tabular data; encode several modalities separately and concatenate "
                "them before the last layers. Use Adam with lr=3e-4, ReLU, He initialization, PyTorch's layers and "
                "losses, fewer than 200 lines of custom code, and one config for all hyperparameters.",
                ("held-back", "reading", "first-weights", "optimizer"),
            ),
        ),
        look=("starter",),
    ),
    Question(
        "smaller-problem",
        "Could you make the task smaller: about 10,000 samples, fewer classes, smaller inputs, one of several "
        "outputs, or synthetic data with known targets?",
        "A small task should be solvable, and each run is fast; if it fails, there is a bug.",
        "yes/no",
        "simple",
        (
            Follow(
                "yes",
                "Do that first: for example, predict only the class before class and bounding box. Scale up to the "
                "full dataset only when training is stable.",
                ("memorize", "short-run"),
            ),
            Follow("no", "Then at least overfit two samples, then one batch, then more.", ("memorize",)),
        ),
    ),
    Question(
        "labels-fit",
        "Looking at some samples as the model receives them: do the labels match the inputs, and do the inputs look "
        "right?",
        "No statistic can tell whether an image shows a cat. Misaligned labels, rotated images and augmentations that "
        "crop the object out are obvious to the eye.",
        "yes/no",
        "look",
        (
            Follow(
                "no",
                "Trace one sample from its file to the model, and find where it loses its label or its layout: the "
                "order of files, a shuffle of only inputs or labels, the transforms, height and width swapped.",
                ("relation", "targets", "reading", "values"),
            ),
            Follow(
                "unsure",
                "Look at twenty samples with their class names, and at the labels that noisy-labels reports.",
                ("relation",),
            ),
        ),
        look=("show_batch", "noisy-labels", "misread-image-layout", "destructive-augmentation"),
    ),
    Question(
        "solvable",
        "Could a person, or any known method, predict the target from these inputs?",
        "If the inputs contain no information about the target, no model can predict it (for example stock prices).",
        "yes/no",
        "relation",
        (
            Follow(
                "no",
                "Predict a simpler target first, or find inputs that are informative about it.",
                ("relation", "short-run"),
            ),
            Follow(
                "unsure",
                "Let a person label fifty samples: human error also estimates the irreducible error.",
                ("relation", "short-run"),
            ),
        ),
        look=("labels-unrelated-to-inputs", "worse-than-baseline"),
    ),
    Question(
        "pretrained",
        "If the model is pretrained: does your preprocessing match the one used for pretraining?",
        "Pixel range (0 to 255, 0 to 1 or -1 to 1), channel order, mean and standard deviation: a pretrained model "
        "raises no error if they are wrong.",
        "choice",
        "scale",
        (
            Follow(
                "no",
                "Use the preprocessing that is published with the weights.",
                ("scale", "values", "repeat"),
            ),
            Follow(
                "unsure",
                "See the documentation of the weights, or the transforms that come with them.",
                ("scale", "values", "repeat"),
            ),
        ),
        choices=("it is not pretrained", "yes", "no", "unsure"),
        look=("show_batch", "unnormalized-inputs", "checkpoint-not-loaded"),
    ),
    Question(
        "same-preparation",
        "Are validation and test data preprocessed by the same code, with statistics (mean, standard deviation, "
        "vocabulary) computed on the training data only?",
        "Statistics of the full dataset leak information, and statistics of each split make the splits differ.",
        "yes/no",
        "splits",
        (
            Follow(
                "no", "Fit the preprocessing on the training data, save it, and apply it to all splits.", ("splits",)
            ),
            Follow("unsure", "Run one sample through both pipelines, and compare.", ("splits",)),
        ),
        look=("split-shift", "split-leakage"),
    ),
    Question(
        "error-is-about-memory",
        "Is it an out-of-memory error?",
        "Then the shapes are right, and the fix is to use less memory.",
        "yes/no",
        "one-pass",
        (
            Follow(
                "yes",
                "Reduce one thing at a time: halve the batch size, then the largest layers, then the input size. Check "
                "that the loss is not accumulated with its autograd graph (use loss.item()).",
                ("own-loop",),
            ),
        ),
        look=("graph-kept-alive", "forward-fails"),
    ),
    Question(
        "own-code",
        "Which of these are custom code?",
        "Library code is well tested; most bugs are in custom code.",
        "choice",
        "slopes",
        (
            Follow(
                "layers or gradients",
                "Test each separately, with a different prime size per dimension, so that swapped dims raise an error.",
                ("slopes", "independence", "response", "inside"),
            ),
            Follow(
                "the loss",
                "Test it on values with a known result. Use PyTorch's version if there is one: it is numerically "
                "stable.",
                ("loss-reads-outputs", "loss-teaches", "loss-scale", "finite"),
            ),
            Follow(
                "the data pipeline",
                "Add asserts for shapes, dtypes and value ranges.",
                ("readable", "values", "reading"),
            ),
            Follow(
                "all of these", "Test them one by one, starting with the data.", ("values", "slopes", "loss-teaches")
            ),
        ),
        choices=("layers or gradients", "the loss", "the data pipeline", "all of these", "none of these"),
        look=("custom-backward-wrong", "tap"),
    ),
    Question(
        "nan-when",
        "When does the loss become NaN?",
        "At the first step, the cause is the data or the loss; within a hundred steps, usually the learning rate; much "
        "later, a rare sample or growing weights.",
        "choice",
        "finite",
        (
            Follow(
                "at the first step",
                "Check the data, then every sqrt, log and division.",
                ("values", "finite", "loss-reads-outputs"),
            ),
            Follow(
                "within the first hundred steps",
                "Lower the learning rate, and clip exploding gradients.",
                ("learning-rate", "first-weights", "signal"),
            ),
            Follow(
                "later",
                "Use nbdebug.watch to find the step, the batch and the module. Look for sqrt and log of zero, "
                "bounding boxes of zero width and empty sequences, and add asserts to the loader.",
                ("values", "live", "signal"),
            ),
        ),
        choices=("at the first step", "within the first hundred steps", "later", "unsure"),
        look=("watch", "tap"),
    ),
    Question(
        "slow-where",
        "Is the GPU (or the CPU, without a GPU) busy most of the time?",
        "An idle GPU waits for data; a busy one is limited by the model.",
        "yes/no",
        "speed",
        (
            Follow("no", "Use more workers, prefetching, or offline preprocessing.", ("speed",)),
            Follow(
                "yes",
                "Profile the step; use a smaller model or mixed precision; log less often.",
                ("own-loop", "learning-rate"),
            ),
            Follow("unsure", "`nvidia-smi` and `gpustat` show GPU utilization, `top` CPU utilization.", ("speed",)),
        ),
        look=("loading-bottleneck",),
    ),
    *QUESTIONS_ON_RESULTS,
)
