"""What only a person can answer, as data: why it is asked, and what follows from each answer."""

from __future__ import annotations

from nbdebug.decision_tree.parts import Follow, Question
from nbdebug.decision_tree.questions_on_results import QUESTIONS_ON_RESULTS

__all__ = ["QUESTIONS"]

QUESTIONS: tuple[Question, ...] = (
    Question(
        "simplified",
        "Is this already the simplest form: a small standard model, a standard loss, no regularisation, no "
        "augmentation, no schedule, a data set that fits in memory?",
        "Each piece that is left out cannot be the broken one; put them back one at a time once the rest works.",
        "yes/no",
        "simple",
        (
            Follow(
                "no",
                "Turn off everything that a first training does not need. Begin with a small convolutional network for "
                "pictures, a recurrent or convolutional one for sequences, one hidden layer for the rest; several "
                "kinds of input get a small network each, joined before the last layers. Adam at 3e-4, ReLU, He "
                "initialisation, layers and losses of the library, fewer than 200 lines of your own, and every setting "
                "in one place, so that a change is one line.",
                ("held-back", "reading", "first-weights", "optimizer"),
            ),
        ),
        look=("starter",),
    ),
    Question(
        "smaller-problem",
        "Could the problem be made smaller: about 10,000 samples, fewer classes, smaller inputs, one of several "
        "outputs, or synthetic data whose answer you know?",
        "A small problem should surely be solvable, and every trial is quick; what fails on it is a bug.",
        "yes/no",
        "simple",
        (
            Follow(
                "yes",
                "Do that first: predict the class alone before class and place, make sure that it learns, then grow. "
                "Go to the whole data set only when training is stable.",
                ("memorise", "short-run"),
            ),
            Follow("no", "Then at least learn two samples by heart, then a batch, then more.", ("memorise",)),
        ),
    ),
    Question(
        "labels-fit",
        "Looking at some samples as the network receives them: do the labels fit the inputs, and do the inputs look "
        "right?",
        "No statistic knows that this picture shows a cat. Inputs and labels that were shuffled apart, a picture that "
        "lies on its side, an augmentation that cuts the object away: a person sees them at a glance.",
        "yes/no",
        "look",
        (
            Follow(
                "no",
                "Follow one sample from its file to the network, and find where it parts from its label or loses its "
                "form: the order of files, a shuffle of one of the two, the transforms, height and width exchanged.",
                ("relation", "targets", "reading", "values"),
            ),
            Follow(
                "unsure",
                "Look at twenty of them, with the names of the classes, and at the labels that noisy-labels doubts.",
                ("relation",),
            ),
        ),
        look=("show_batch", "noisy-labels", "misread-image-layout", "destructive-augmentation"),
    ),
    Question(
        "solvable",
        "Could a person, or any method you know of, get the answer from these inputs?",
        "If the inputs do not hold the answer, no network finds it; the prices of shares are the classical example.",
        "yes/no",
        "relation",
        (
            Follow(
                "no",
                "Ask for a simpler thing first, or look for inputs that hold the answer.",
                ("relation", "short-run"),
            ),
            Follow(
                "unsure",
                "Let a person answer fifty samples: that is also the best estimate of the error nobody can avoid.",
                ("relation", "short-run"),
            ),
        ),
        look=("labels-unrelated-to-inputs", "worse-than-baseline"),
    ),
    Question(
        "pretrained",
        "If others trained the model before: are your inputs prepared exactly as they were then?",
        "Pixels from 0 to 255, 0 to 1 or -1 to 1, the order of the channels, the mean that is taken off: a pretrained "
        "network does not complain about the wrong one.",
        "choice",
        "scale",
        (
            Follow(
                "no",
                "Take the preparation from where the weights come from.",
                ("scale", "values", "repeat"),
            ),
            Follow(
                "unsure",
                "The documentation of the weights, or the transforms that come with them, say it.",
                ("scale", "values", "repeat"),
            ),
        ),
        choices=("it is not pretrained", "yes", "no", "unsure"),
        look=("show_batch", "unnormalised-inputs", "checkpoint-not-loaded"),
    ),
    Question(
        "same-preparation",
        "Are validation and test data prepared by the same code, with numbers (mean, deviation, vocabulary) that come "
        "from the training data alone?",
        "Numbers taken from all data leak, and numbers taken anew from each part make them differ.",
        "yes/no",
        "splits",
        (
            Follow("no", "Fit the preparation on the training data, keep it, and apply it to all.", ("splits",)),
            Follow("unsure", "Send one sample through both ways, and compare.", ("splits",)),
        ),
        look=("split-shift", "split-leakage"),
    ),
    Question(
        "error-is-about-memory",
        "Does the error say that memory ran out?",
        "Then nothing is wrong with the shapes, and the way out is another one.",
        "yes/no",
        "one-pass",
        (
            Follow(
                "yes",
                "Scale back one thing at a time: halve the batch, then the largest layers and matrices, then the "
                "inputs; and see that no loss is summed with its graph.",
                ("own-loop",),
            ),
        ),
        look=("graph-kept-alive", "forward-fails"),
    ),
    Question(
        "own-code",
        "Which of these did you write yourself?",
        "What a library brings has been tested by many; most bugs are in what is new.",
        "choice",
        "slopes",
        (
            Follow(
                "layers or gradients",
                "Test each alone, with sizes that are all different primes, so that no wrong dimension fits by chance.",
                ("slopes", "independence", "response", "inside"),
            ),
            Follow(
                "the loss",
                "Test it on numbers whose result you know, and use the library's form where there is one: it guards "
                "its logarithms.",
                ("loss-reads-outputs", "loss-teaches", "loss-scale", "finite"),
            ),
            Follow("the data pipeline", "Assert in it what must never happen.", ("readable", "values", "reading")),
            Follow("all of these", "Then test them one by one, the data first.", ("values", "slopes", "loss-teaches")),
        ),
        choices=("layers or gradients", "the loss", "the data pipeline", "all of these", "none of these"),
        look=("custom-backward-wrong", "tap"),
    ),
    Question(
        "nan-when",
        "When does the loss become NaN?",
        "At the first step it is the data or the loss; within a hundred steps most often the learning rate; much later "
        "a rare sample, or weights that grow.",
        "choice",
        "finite",
        (
            Follow(
                "at the first step",
                "Look at the data, then at roots, logarithms and divisions.",
                ("values", "finite", "loss-reads-outputs"),
            ),
            Follow(
                "within the first hundred steps",
                "Lower the learning rate, and clip gradients that blow up.",
                ("learning-rate", "first-weights", "signal"),
            ),
            Follow(
                "later",
                "Watch the real training for the step, the batch and the module. Look for roots and logs of zero, "
                "boxes without width and empty sequences, and assert in the loader what must never happen.",
                ("values", "live", "signal"),
            ),
        ),
        choices=("at the first step", "within the first hundred steps", "later", "unsure"),
        look=("watch", "tap"),
    ),
    Question(
        "slow-where",
        "Is the processor that should compute (the GPU, where there is one) busy most of the time?",
        "An idle one waits for the data; a busy one has too much to do.",
        "yes/no",
        "speed",
        (
            Follow("no", "More workers, prefetching, or data that are prepared beforehand.", ("speed",)),
            Follow(
                "yes",
                "Profile the step; make the model smaller or the precision lower; take summaries less often.",
                ("own-loop", "learning-rate"),
            ),
            Follow("unsure", "`nvidia-smi` and `gpustat` show it for GPUs, `top` for processors.", ("speed",)),
        ),
        look=("loading-bottleneck",),
    ),
    *QUESTIONS_ON_RESULTS,
)
