"""A dataset that is modified by reading it."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.repeated_reads import Rereading
from nbdebug.evidence.step_calls import StepCalls

__all__ = ["preprocessing_mutates_data"]


@check(explains=("unnormalized-inputs", "constant-inputs", "not-reproducible", "split-shift"))
def preprocessing_mutates_data(rereading: Rereading | None, step: StepCalls | None) -> Iterator[Finding]:
    """Reading a sample, or training on it, modifies the dataset, so the next epoch sees different data.

    nbdebug reads the same samples three times on a copy and restores every RNG state in between. Random augmentation
    then returns the same values; an in-place modification does not. Where the loader hands out what it stores, your
    training step may not modify its batch in place either.

    Why it matters: an in-place transform (`x /= 255`, `x -= mean`, `img[...] = 0`) is applied again in every epoch. The
    data drifts while the model trains, and the loss rises for no visible reason.

    A sample that is returned in a buffer which the next one is written to takes the values of that one; every sample of
    a batch then equals the last.

    What to try: return a new tensor from transforms (`x = x / 255`), or copy the stored sample before modifying it.
    """
    if rereading is None and step is None:
        raise NotApplicable("samples cannot be loaded by index")
    if step is not None and step.changed:
        yield _by_step(step)
    if rereading is None:
        return
    if rereading.overwritten:
        yield _overwritten(rereading)
    if not rereading.changed:
        return
    sure = bool(rereading.stored) or rereading.local == rereading.changed
    what = "targets" if rereading.target_changed == rereading.changed else "values"
    modified = f"; {rereading.stored[0]} changed" if rereading.stored else ""
    yield Finding(
        f"{rereading.changed} of {rereading.read} samples return different {what} when read again with the same "
        f"random seed (sample {rereading.examples[0]}: mean magnitude {rereading.first:.4g}, {rereading.second:.4g}, "
        f"{rereading.third:.4g}){modified}.",
        where=f"sample {rereading.examples[0]}",
        severity="bug" if sure else "note",
        evidence={
            "changed": rereading.changed,
            "read": rereading.read,
            "only the sample that was read": rereading.local,
            "threshold": 0,
            "source": "A practical guide for debugging TensorFlow codes; reading must not modify the data",
        },
        remedies=(
            Remedy("Return a new tensor instead of modifying the stored one.", "x = x / 255  # not x /= 255"),
            Remedy("Copy the sample before modifying it.", "x = self.data[index].clone()", Patch("copy-samples")),
        ),
        exhibit=Lines(
            (("mean magnitude", (1.0, 2.0, 3.0), (rereading.first, rereading.second, rereading.third)),),
            f"Sample {rereading.examples[0]}, read three times",
            x_label="read",
            y_label="mean magnitude",
        ),
    )


def _overwritten(rereading: Rereading) -> Finding:
    return Finding(
        f"{rereading.overwritten} of {rereading.read} samples take the values of the next one when that is read: the "
        "dataset returns the same memory for every sample.",
        where="loader",
        evidence={
            "overwritten": rereading.overwritten,
            "read": rereading.read,
            "threshold": 0,
            "source": "samples of a batch are read one after the other and collated at the end",
        },
        remedies=(
            Remedy(
                "Return a copy of the buffer.",
                "return torch.from_numpy(self.buffer.copy()), label",
                Patch("copy-samples"),
            ),
        ),
    )


def _by_step(step: StepCalls) -> Finding:
    names = ", ".join(f"`{name}`" for name in step.changed)
    return Finding(
        f"`train_step` modifies {names} in place in every call, and the loader hands out the same tensors in each "
        "epoch.",
        where="train_step",
        evidence={
            "entries": list(step.changed),
            "threshold": 0,
            "source": "two calls with one batch; two passes over the loader that give the same memory",
        },
        remedies=(Remedy("Compute a new tensor instead.", "x = x - mean  # not x -= mean, x.sub_(mean)"),),
    )
