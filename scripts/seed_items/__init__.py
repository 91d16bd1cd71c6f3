"""Every piece of advice of the five sources, in a few words of our own, with what serves it.

An item is its number in the source, what it asks for, and the names of what serves it, separated by spaces:
`check:ID`, `step:ID`, `question:ID`, `symptom:ID`, `advice:PART` (what to do about that part of the error),
`remedy:ID:WORD` (what the check ID tells to try, by a word of it), or `nbdebug.NAME`.
"""

from __future__ import annotations

from seed_items.baseline import BASELINE
from seed_items.fullstack import FULL_STACK
from seed_items.models import MODELS
from seed_items.reasons import REASONS
from seed_items.tensorflow import TENSORFLOW

__all__ = ["NOT_YET", "SOURCES", "Item"]

Item = tuple[str, str, str]

SOURCES: dict[str, tuple[Item, ...]] = {
    "37 reasons why your neural network is not working": REASONS,
    "Debugging your ML models": MODELS,
    "A practical guide for debugging TensorFlow codes": TENSORFLOW,
    "Full Stack Deep Learning, lecture 7: troubleshooting deep neural networks": FULL_STACK,
    "Debugging neural networks": BASELINE,
}

# Functions that items count on and that are still to come. It may only become shorter: a name that exists must go.
NOT_YET: tuple[str, ...] = ()
