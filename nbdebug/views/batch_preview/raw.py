"""A sample before the transforms of its data set, where the data set keeps them apart."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from nbdebug.setup.user_code import user_code
from nbdebug.views.batch_preview.parts import Taste, part_of, text_of
from nbdebug.views.batch_preview.preview import Part

__all__ = ["raw_parts", "without_transforms"]


def without_transforms(dataset: Any, instead: Any = None) -> Any:
    """Copy a data set with its transforms taken out, also in the data sets that it wraps; None where it has none."""
    bare = copy.copy(dataset)
    found = False
    for name, value in list(vars(dataset).items()) if hasattr(dataset, "__dict__") else ():
        if callable(value) and _is_transform(name):
            setattr(bare, name, instead)
            found = True
        elif isinstance(value, Dataset) and (inner := without_transforms(value, instead)) is not None:
            setattr(bare, name, inner)
            found = True
    return bare if found else None


def raw_parts(dataset: Any, index: int, taste: Taste) -> tuple[Part, ...]:
    """Read one sample without its transforms and show its first element; empty where there are no transforms."""
    for instead in (None, _same):
        bare = without_transforms(dataset, instead)
        if bare is None:
            return ()
        with user_code(passing=()) as tried:
            sample = bare[index]
        if not tried.failure:  # a data set that calls its transform without asking gets one that changes nothing
            return (_part(_first(sample), taste),)
    return ()


def _is_transform(name: str) -> bool:
    lower = name.lower()
    return ("transform" in lower or "augment" in lower) and "target" not in lower


def _same(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def _first(sample: Any) -> Any:
    if isinstance(sample, (list, tuple)) and sample:
        return sample[0]
    return next(iter(sample.values())) if isinstance(sample, dict) and sample else sample


def _part(value: Any, taste: Taste) -> Part:
    try:
        tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(np.array(value))
    except (TypeError, ValueError, RuntimeError):
        return Part("before the transforms", "input", "value", (1,), type(value).__name__, (), (text_of(value),))
    return part_of("before the transforms", "input", tensor[None], taste)
