"""Where each step of the tree is advised, by the numbers of the sources, as data.

"37 reasons" is the list "37 reasons why your neural network is not working" by its numbers, "FSDL" lecture 7 of Full
Stack Deep Learning by its sections, "Karpathy" the post "A recipe for training neural networks" by its headings.
"""

from __future__ import annotations

__all__ = ["SOURCES"]

SOURCES: dict[str, str] = {
    "simple": "37 reasons, 16 · FSDL, start simple · Karpathy, set up a dumb baseline",
    "look": "37 reasons, 1 and 4 · Karpathy, become one with the data",
    "readable": "37 reasons, 3",
    "values": "37 reasons, 1 and 2 · Karpathy, visualize just before the net",
    "scale": "37 reasons, 12 and 14 · FSDL, implement and debug",
    "sampling": "37 reasons, 1, 7, 10 and 11",
    "targets": "37 reasons, 4 · FSDL, implement and debug",
    "amount": "37 reasons, 8 and 9",
    "reading": "37 reasons, 3, 13 and 15 · FSDL, implement and debug",
    "relation": "37 reasons, 4 to 6 · Karpathy, become one with the data",
    "splits": "37 reasons, 15 · FSDL, evaluate",
    "one-pass": "FSDL, get your model to run",
    "finite": "37 reasons, 37 · FSDL, numerical instability",
    "slopes": "37 reasons, 22 and 26",
    "response": "37 reasons, 2 · Karpathy, use backprop to chart dependencies",
    "independence": "37 reasons, 25 · Karpathy, use backprop to chart dependencies",
    "positions": "Karpathy, use backprop to chart dependencies",
    "modes": "37 reasons, 32 · FSDL, train mode",
    "repeat": "Karpathy, fix random seed",
    "loss-teaches": "37 reasons, 18",
    "loss-reads-outputs": "37 reasons, 18 and 19 · FSDL, incorrect input to the loss",
    "first-loss": "37 reasons, 17 · Karpathy, verify loss at init",
    "loss-scale": "37 reasons, 20",
    "every-parameter": "37 reasons, 23",
    "first-weights": "37 reasons, 28 · FSDL, sensible defaults · Karpathy, init well",
    "signal": "37 reasons, 33 and 35",
    "capacity": "37 reasons, 24",
    "held-back": "37 reasons, 17 and 30 · FSDL, sensible defaults",
    "own-loop": "37 reasons, 35",
    "optimizer": "37 reasons, 29 and 34 · FSDL, sensible defaults · Karpathy, Adam is safe",
    "learning-rate": "37 reasons, 36 · FSDL, overfit a single batch",
    "memorize": "37 reasons, 27 · FSDL, overfit a single batch · Karpathy, overfit one batch",
    "short-run": "37 reasons, 2, 21 and 33 · FSDL, simple baselines · Karpathy, input-independent baseline",
    "live": "37 reasons, 31 · Karpathy, visualize prediction dynamics",
    "rest": "37 reasons, 33",
    "inside": "37 reasons, 33 and 35",
    "known-result": "FSDL, compare to a known result · Karpathy, human baseline",
    "error-parts": "37 reasons, 30 · FSDL, bias-variance decomposition",
    "error-analysis": "FSDL, error analysis",
    "tuning": "37 reasons, 29 · FSDL, tune hyperparameters · Karpathy, tune",
}
