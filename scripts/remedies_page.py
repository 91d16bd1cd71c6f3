"""The page of the remedies that nbdebug can try: how they are judged, and every patch with what it does."""

from __future__ import annotations

import inspect

from nbdebug.fixes import PatchSpec, all_patches

__all__ = ["remedies_page"]

HEAD = """# Remedies that are tried on a copy

Made by `make docs`. `finding.verify()` tries the remedies of a finding in their order until one verifies,
`finding.verify(1)` the second one alone, `report.verify()` those of the most likely cause; for a report read from a
file, `nbdebug.verify(finding, model, loader, …)`. Each gives a `Verification`: the verdict, the sentence with its
numbers, the code that you would write, and both curves. It stays in the report. Nothing is applied to your own
objects.

A remedy is **verified** if all of this holds, in two runs with different seeds (other batches, another order, other
random numbers):

- a short training of the patched copy, with your optimizer and your own step, is better than that of the copy as it
  is, by more than 5 % and by more than two standard errors;
- the training of the patched copy learns something;
- the check that raised the finding, run again on the patched copy, raises it no more.

Otherwise it **did not help**, or was **not tried**, with the reason. Losses of two different functions cannot be
compared, so each patch says by what it is judged: by the *loss* where it stays the same function; by the *answers*
(accuracy or explained variance on samples drawn over the whole data set) where the loss is another one or the data
are drawn otherwise; by the *answers or the share of the first loss that is left*; by the accuracy with every
*class* counting alike; or by the *check* alone where the problem need not show in a short training, which then must
not become worse.

| patch | what it does to the copy | judged by |
| --- | --- | --- |
"""
JUDGED = {
    "loss": "loss",
    "answers": "answers",
    "shares": "answers, or share of the loss",
    "classes": "classes",
    "check": "check",
    "clean": "check alone",
}


def remedies_page() -> str:
    """Return the page, from the patches' own docstrings."""
    return HEAD + "".join(_row(spec) for _, spec in sorted(all_patches().items()))


def _row(spec: PatchSpec) -> str:
    about = " ".join(inspect.cleandoc(spec.function.__doc__ or "").split())
    return f"| `{spec.name}` | {about} | {JUDGED[spec.judged_by]} |\n"
