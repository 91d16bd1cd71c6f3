"""The items of "Debugging your ML models"."""

MODELS = (
    ("D1a", "Look at inputs and labels", "nbdebug.show_batch question:labels-fit"),
    ("D1b", "Look at the distribution of the data", "nbdebug.show_batch check:class-imbalance check:split-shift"),
    (
        "D1c",
        "Do simple methods (kernel machine, forest) work?",
        "check:labels-unrelated-to-inputs check:worse-than-baseline",
    ),
    ("D1d", "Duplicates, bad data, corrupted labels", "check:duplicate-samples check:noisy-labels check:sample-fails"),
    ("D1e", "Center and scale the data", "check:unnormalized-inputs check:feature-scales-differ"),
    ("D1f", "Imbalance and bias; sample more or fewer", "check:class-imbalance remedy:class-imbalance:oversample"),
    ("D2", "Overfit a few samples without regularization", "check:cannot-overfit-batch question:simplified"),
    ("D3", "Begin with a simple model and let it grow", "question:simplified nbdebug.starter"),
    ("D4a", "Underfitting or overfitting: k-fold, training and validation loss", "nbdebug.k_fold nbdebug.decompose"),
    ("D4b", "Run on a small part of large data", "question:smaller-problem nbdebug.decompose"),
    ("D4c", "Watch the losses as curves", "nbdebug.watch"),
    ("D4d", "Underfitting: a more complex model", "advice:underfitting"),
    ("D4e", "Overfitting: more data, a smaller model", "advice:overfitting"),
    ("D4f", "Dropout, batch norm, early stopping, decay, ensembles", "advice:overfitting"),
    ("D5a", "Are the scales of the losses all right?", "check:loss-terms-unbalanced check:loss-sums-over-batch"),
    ("D5b", "Gradients that blow up: clip", "check:exploding-gradients remedy:exploding-gradients:clip"),
    ("D5c", "NaN, infinite or weird values; boxes without width", "check:non-finite-inputs question:nan-when"),
    (
        "D5d",
        "Hooks and anomaly detection on the way back",
        "check:non-finite-backward nbdebug.tap nbdebug.show_gradients",
    ),
    ("D6a", "Do your if-conditions do what they should?", "question:read-again"),
    ("D6b", "Clear error messages: a checkpoint that was not found", "check:checkpoint-not-loaded nbdebug.BadInput"),
    ("D6c", "Asserts in the loader", "question:own-code check:sample-fails check:invalid-labels"),
    ("D7", "Use a debugger rather than prints", "nbdebug.tap nbdebug.explain_error question:read-again"),
)
