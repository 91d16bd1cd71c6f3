"""Verdicts about validation and test data beside the training data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nbdebug.checks.data.dense_targets_misaligned import DenseAlignment, MovedFit
from nbdebug.checks.data.split_leakage import SplitPair, Splits
from nbdebug.checks.data.split_shift import Shift, Shifts
from nbdebug.evidence.first_pass import FirstPass
from nbdebug.evidence.joint_draws import JointDraws
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.experiments.split_codes import Recoding
from nbdebug.experiments.split_fits import SplitFit
from nbdebug.experiments.task import Task
from tests.verdicts.table import Table, minimal


def split(**facts: Any) -> Splits:
    """Return a thousand held-out samples, compared with a thousand training samples."""
    sizes = dict.fromkeys(("compared", "inner_compared", "near_compared", "inner_near_compared"), 1000)
    return Splits((minimal(SplitPair, name="val_loader", **{**sizes, **facts}),))


table = Table("split-leakage")
table.row("none", "silent", split())
table.row("the same indices", "bug", split(shared=1, shared_of=1000))
table.row("as many copies as within the training data", "silent", split(exact=20, inner=20))
table.pair("share", lambda count: split(exact=count, beyond_chance=count), {10: "suspect", 9: "note"})
table.pair("surely", lambda count: split(exact=count, beyond_chance=count), {50: "bug", 49: "suspect"})
table.pair("pairs", lambda n: split(compared=100, exact=n, beyond_chance=n), {2: "suspect", 1: "note"})
table.pair("near_share", lambda count: split(near=count), {50: "suspect", 49: "silent"})
table.pair("p_value", lambda inner: split(exact=26, inner=inner), {5: "suspect", 6: "silent"})


def shift(**facts: Any) -> tuple[Shifts, None]:
    """Return a held-out split whose inputs and labels do not differ, unless the facts say so."""
    known = {"name": "val_loader", "columns": 10, "auc": 0.5, "auc_p": 1.0, "label_p": 1.0, **facts}
    return Shifts((minimal(Shift, **known),)), None


def column(difference: float = 0.0, ratio: float = 1.0) -> tuple[Shifts, None]:
    """Return one of ten columns that has moved."""
    return shift(moved=(("x0", difference, ratio),))


def moved(count: int, difference: float = 9.0, **facts: Any) -> tuple[Shifts, None]:
    """Return so many columns that have moved."""
    return shift(moved=tuple((f"x{index}", difference, 1.0) for index in range(count)), **facts)


def labels(distance: float, **facts: Any) -> tuple[Shifts, None]:
    """Return labels that are distributed otherwise."""
    return shift(label_distance=distance, label_p=0.0, **facts)


def fitted(**facts: Any) -> LearningGate:
    """Return a copy that has learned, and predicts the validation samples no better than a constant."""
    fit = {"name": "val_loader", "samples": 200, "held_out": 0.8, "skill": 0.0, "names": ((0, 1), (1, 0)), **facts}
    return minimal(LearningGate, verdict="learns", splits=(minimal(SplitFit, **fit),))


table = Table("split-treated-differently")
table.row("no split", "not applicable", minimal(LearningGate, verdict="learns"))
table.row("nothing brings the skill back", "silent", fitted())
table.row("as good as on training samples", "silent", fitted(skill=0.8, renamed=0.8))
table.row("targets on another scale", "bug", fitted(rescaled=0.8, names=()))
table.row("turned images", "bug", fitted(moved=0.8, moved_how="flipped upside down", names=()))
table.row("columns of a table", "bug", fitted(moved=0.8, moved_how="4 columns in another order", names=()))
CODES = Recoding(0.8, (("batch[0]", 2, ((0, 1), (1, 0))),))
table.row("categories under other codes", "bug", fitted(recoding=CODES, names=()))
table.row("codes that help too little", "silent", fitted(recoding=replace(CODES, skill=0.3), names=()))
table.row("the names of the classes as they are", "silent", fitted(renamed=0.8, names=()))
table.pair("learned", lambda s: fitted(held_out=s, renamed=s), {0.41: "bug", 0.39: "silent"})
table.pair("lost", lambda s: fitted(skill=s, renamed=0.8), {0.39: "bug", 0.41: "silent"})
table.pair("restored", lambda s: fitted(renamed=s), {0.65: "bug", 0.63: "silent"})

REGRESSION = minimal(FirstPass, task=Task("regression"))
table = Table("split-shift")
table.row("none", "silent", *shift())
table.row("reversed channels", "suspect", *shift(channels_swapped=True))
table.row("labels of another task", "note", labels(0.9)[0], REGRESSION)
table.pair("mean_shift", column, {1.6: "suspect", 1.4: "silent"})
table.pair("scale_ratio", lambda ratio: column(ratio=ratio), {3.1: "suspect", 2.9: "silent"})
table.pair("auc", lambda auc: shift(auc=auc, auc_p=0.0), {0.96: "suspect", 0.94: "note"})
table.pair("auc_note", lambda auc: shift(auc=auc, auc_p=0.0), {0.76: "note", 0.74: "silent"})
table.pair("p_value", lambda p: shift(auc=0.99, auc_p=p), {0.9e-6: "suspect", 1.1e-6: "silent"})
table.pair("label_distance", labels, {0.81: "suspect", 0.79: "note"})
table.pair("label_note", labels, {0.26: "note", 0.24: "silent"})
table.pair("unseen", lambda share: labels(0.5, unseen_share=share), {0.11: "suspect", 0.09: "note"})
table.pair("correlation", lambda r: moved(5, 0.1, slopes=(("x", 10.0, 0.0, r),)), {0.91: "bug", 0.89: "silent"})
table.pair(
    "scaled",
    lambda count: moved(count, 0.1, columns=100, slopes=(("x", 10.0, 0.0, 1.0),)),
    {20: "bug", 19: "silent"},
)
table.pair("target_shift", lambda times: shift(target=(1.5 * times, 1.0)), {2.1: "suspect", 1.9: "silent"})
table.pair("columns", lambda count: moved(count, columns=200), {20: "suspect", 19: "silent"})
table.pair("wide", lambda columns: moved(1, columns=columns), {100: "suspect", 101: "silent"})
table.pair("random_columns", lambda count: moved(count, columns=100, random=True), {50: "suspect", 49: "silent"})


def misaligned(z: float = 10.0, gain: float = 0.3, wins: float = 0.0, fit: float = 0.1) -> DenseAlignment:
    """Return masks that fit their images so much better after a flip."""
    flip = MovedFit("flipped left to right", fit + gain, gain, z, wins)
    return DenseAlignment("batch[1]", 48, fit, 5.0, (flip,))


def drawn(apart: int = 20, samples: int = 10, *, placed: float | None = None, dense: bool = True) -> JointDraws:
    """Return 50 pairs of draws, of which so many images and targets moved apart."""
    return JointDraws("batch[1]", dense, 50, apart, samples, "flipped left to right", "not moved", "boxes", placed)


def boxes(placed: float) -> JointDraws:
    """Return boxes that stay where they are while their images are flipped."""
    return drawn(placed=placed, dense=False)


table = Table("dense-targets-misaligned")
table.row("neither dense nor drawn again", "not applicable", None, None)
table.row("aligned", "silent", misaligned(z=-10.0, gain=-0.3, fit=0.5), None)
table.row("flipped", "suspect", misaligned(), None)
table.row("half of the images flipped", "suspect", misaligned(z=0.0, gain=0.0, wins=0.5), None)
table.pair("sigmas", lambda z: (misaligned(z=z), None), {4.4: "suspect", 3.6: "silent"})
table.pair("gain", lambda gain: (misaligned(gain=gain), None), {0.055: "suspect", 0.045: "silent"})
table.pair("wins", lambda wins: (misaligned(z=0.0, gain=0.0, wins=wins), None), {0.22: "suspect", 0.18: "silent"})
table.row("moved together", "silent", None, drawn(0, 0))
table.row("keypoints mirrored, images not", "suspect", None, drawn(dense=False))
table.pair("apart", lambda apart: (None, drawn(apart)), {11: "suspect", 9: "silent"})
table.pair("samples", lambda count: (None, drawn(samples=count)), {3: "suspect", 2: "silent"})
table.pair("placed", lambda z: (None, boxes(z)), {5.5: "suspect", 4.5: "silent"})
