"""Reports made by hand, so that the tests of the writers need no model and no run."""

import math

import numpy as np

from nbdebug.charts import Bars, HistogramGrid, Images, Lines, Table
from nbdebug.core.finding import Finding, Patch, Remedy, Result
from nbdebug.core.verification import Contest, Verification
from nbdebug.report import Report

LAYERS = [f"encoder.layers.{i // 4}.{('query', 'key', 'value', 'out')[i % 4]}" for i in range(100)]


def bars() -> Bars:
    norms = tuple(float("nan") if i == 70 else 0.9**i for i in range(100))
    return Bars(tuple(LAYERS), norms, "Norm of the gradient, layer by layer", "L2 norm", log=True, band=(1e-3, 10.0))


def lines() -> Lines:
    steps = tuple(float(i) for i in range(5000))
    falling = tuple(2.3 * math.exp(-i / 900) + 0.05 * math.sin(i / 7) + 0.06 for i in range(5000))
    stuck = tuple(2.3 if i < 3000 else float("nan") for i in range(5000))
    return Lines((("yours", steps, stuck), ("without the softmax", steps, falling)), "Loss on one batch by heart")


def histograms(rows: int = 100) -> HistogramGrid:
    rng = np.random.default_rng(0)
    counts = tuple(
        tuple(np.histogram(rng.normal(0, 1 + i / 30, 500), 40, (-6, 6))[0].astype(float)) for i in range(rows)
    )
    return HistogramGrid(tuple(LAYERS[:rows]), tuple(np.linspace(-6, 6, 41)), counts, "Activations, layer by layer")


def table(rows: int = 70) -> Table:
    values = tuple((LAYERS[i % 100], "exactly zero", 0.123456 * i) for i in range(rows))
    return Table(("parameter", "gradient", "influence on the answer"), values, "Parameters without a gradient")


def images() -> Images:
    rng = np.random.default_rng(0)
    pictures = tuple(rng.integers(0, 255, (28, 28), dtype=np.uint8) for _ in range(6))
    return Images(pictures, tuple(f"cat, sample {i}" for i in range(6)), "Samples with the label of another")


def verified() -> Verification:
    losses = [2.3 * math.exp(-i / 40) for i in range(300)]
    return Verification(
        Remedy(
            "Let the model return raw scores.",
            "self.head = nn.Sequential(\n    nn.Linear(64, 10),\n)",
            Patch("drop-last-activation", {"inverse": "log"}),
        ),
        "verified",
        "the accuracy rises to 0.97 instead of 0.11 (second seed: 0.96 instead of 0.1).",
        (Contest(0, "accuracy", 0.11, 0.97, True, True), Contest(1, "accuracy", 0.1, 0.96, True, True)),
        Lines.of_losses([("as it is", [2.3] * 300), ("patched", losses)], "Short training run of both copies"),
        4.2,
    )


def cause() -> Finding:
    return Finding(
        "The model ends in Softmax (head.1) and the loss applies a softmax of its own: on one batch the loss stays at "
        "2.30 after 100 steps, and falls to 0.01 without it.",
        where="head.1",
        severity="bug",
        evidence={
            "loss with the layer": 2.301,
            "loss without the layer": 0.0112,
            "largest gradient": 1.3e-7,
            "threshold": 0.5,
            "source": "CrossEntropyLoss takes raw scores (PyTorch documentation)",
        },
        remedies=(
            verified().remedy,
            Remedy("Or keep the softmax and take its logarithm.", "loss_fn = nn.NLLLoss()  # with log_softmax outputs"),
        ),
        explains=("cannot-overfit-batch", "learning-rate-too-low"),
        exhibit=lines(),
        check="softmax-before-cross-entropy",
        verifications=[verified()],
    )


def small() -> Report:
    """A report with every part: a cause with symptoms, another alarm, a note, clean, skipped and crashed checks."""
    findings = [
        cause(),
        Finding(
            "Gradients shrink by a factor of 37,000 from the last layer to the first.",
            where="encoder.layers.0",
            severity="suspect",
            evidence={
                "first": 2.6e-5,
                "last": 0.97,
                "ratio": 37000,
                "threshold": 1000,
                "source": "Glorot and Bengio 2010",
            },
            remedies=(Remedy("Add residual connections or normalization.", "x = x + self.block(self.norm(x))"),),
            exhibit=bars(),
            check="vanishing-gradients",
        ),
        Finding("The loss on one batch is still 2.30.", "model", "bug", {"loss": 2.3}, check="cannot-overfit-batch"),
        Finding(
            "Ten times the rate learns faster.", "optimizer", "suspect", {"rate": 3e-4}, check="learning-rate-too-low"
        ),
        Finding("Some activations drift.", "encoder", "suspect", exhibit=histograms(), check="activation-drift"),
        Finding("12 layers have no gradient.", "encoder", "note", exhibit=table(), check="untrained-parameters"),
        Finding("6 samples look mislabelled.", "loader[17]", "note", exhibit=images(), check="label-noise"),
        Finding("Few layers.", "encoder", "note", exhibit=histograms(5), check="few-histograms"),
    ]
    found = [Result(f.check, "found", (f,), seconds=0.3) for f in findings]
    others = [
        *(Result(check, "clean", seconds=0.1) for check in ("batch-mixing", "initial-loss-off", "forward-fails")),
        Result("split-leakage", "skipped", reason="no validation loader was given"),
        Result("split-shift", "skipped", reason="no validation loader was given"),
        Result("loss-metric-disagree", "skipped", reason="the task is not a classification"),
        Result(
            "update-ratio-off", "crashed", reason="RuntimeError: expected scalar type Half (line 12 of short_run.py)"
        ),
    ]
    return Report(
        findings,
        [*found, *others],
        setup={"model": "VisionTransformer", "parameters": 5_717_416, "device": "cpu", "loss": "CrossEntropyLoss"},
        notes=["The optimizer was assumed: Adam with a rate of 0.0003."],
        timings={"short_run": 4.2, "overfit_one_batch": 3.1, "first_pass": 0.2},
        environment={"nbdebug": "0.1.0", "torch": "2.13.0", "python": "3.12.1", "system": "Linux x86_64", "seed": "0"},
        seconds=9.7,
        made="2025-01-31 12:00:00 UTC",
    )


def healthy() -> Report:
    """A report in which nothing was found."""
    whole = small()
    results = [Result(result.check, "clean") for result in whole.results]
    return Report([], results, whole.setup, [], whole.timings, whole.environment, 5.0, whole.made)
