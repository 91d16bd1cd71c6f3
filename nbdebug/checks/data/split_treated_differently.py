"""A held-out split whose labels or inputs are prepared differently, although its distribution looks like training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbdebug.charts import Table
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check
from nbdebug.errors import NotApplicable
from nbdebug.evidence.learning_gate import LearningGate
from nbdebug.experiments.split_codes import Recoding
from nbdebug.experiments.split_fits import SplitFit

__all__ = ["split_treated_differently"]


@check
def split_treated_differently(
    gate: LearningGate,
    *,
    learned: float = 0.4,  # skill on training samples that were held out, from which on a split is judged; our choice
    lost: float = 0.5,  # of that skill, which the split stays below as it is; our choice
    restored: float = 0.8,  # of that skill, which the change brings back; our choice
) -> Iterator[Finding]:
    """Labels or inputs of a split are prepared differently, although their distributions look alike.

    nbdebug trains a copy in your way and measures it on training samples that it was not trained on, and on the
    validation and test data. Where these come out far worse, it renames their classes, rescales their targets, turns
    their images or exchanges columns of a table; what brings the skill back says how the split differs. Names, scales
    and orders are chosen on one half of the samples and measured on the other.

    Why it matters: a label map that is built for each split anew, or a transform that only one split gets, leaves every
    distribution as it was. The validation error then measures the mismatch, and looks like overfitting.

    What to try: build label maps, encoders, scalers and transforms once, from the training data, for every split.
    """
    if not gate.splits:
        raise NotApplicable("no split was measured on a trained copy")
    for fit in gate.splits:
        if fit.held_out < learned or fit.skill >= lost * fit.held_out:
            continue
        enough = restored * fit.held_out
        if fit.renamed >= enough and fit.names:
            yield _renamed(fit, restored)
        elif fit.rescaled >= enough:
            says = f"With the targets of `{fit.name}` on another scale, a trained copy predicts them"
            yield _finding(fit, says, fit.rescaled, restored, SCALED)
        elif fit.moved >= enough:
            says = f"With the inputs of `{fit.name}` changed ({fit.moved_how}), a trained copy predicts them"
            patch = Patch("reorder-split", {"split": fit.name, "order": list(fit.order)})
            remedy = replace(SAME_ORDER, patch=patch) if fit.order else TURNED
            yield _finding(fit, says, fit.moved, restored, remedy)
        elif fit.recoding is not None and fit.recoding.skill >= enough and fit.recoding.columns:
            yield _recoded(fit, fit.recoding, restored)


SCALED = Remedy(
    "Scale the targets of every split with the statistics of the training data.",
    "y_val = (y_val - y_train.mean()) / y_train.std()",
)
TURNED = Remedy("Use the same deterministic transforms for both datasets.", "val_data.transform = train_data.transform")
SAME_ORDER = Remedy(
    "Select the columns by name, in one order, for every split.", "x_val = val_table[train_table.columns]"
)
ONE_MAP = Remedy(
    "Build the map from class names to numbers once, from the training data, and use it for every split.",
    "classes = sorted(set(train_names))\nnumber = {name: i for i, name in enumerate(classes)}\n"
    "y_val = [number[name] for name in val_names]",
)
ONE_ENCODER = Remedy(
    "Fit the encoder of the categories once, on the training data, and apply it to every split.",
    "encoder = OrdinalEncoder(handle_unknown='use_encoded_value', unknown_value=-1).fit(train_table)\n"
    "x_val = encoder.transform(val_table)",
)


def _renamed(fit: SplitFit, restored: float) -> Finding:
    some = ", ".join(f"{a} is {b}" for a, b in fit.names[:3])
    says = f"With {len(fit.names)} classes of `{fit.name}` renamed ({some}), a trained copy predicts them"
    table = Table(("label in the split", "predicted for it"), fit.names, "The same class under two numbers")
    patch = Patch("rename-split", {"split": fit.name, "names": [list(pair) for pair in fit.names]})
    return _finding(fit, says, fit.renamed, restored, replace(ONE_MAP, patch=patch), table)


def _recoded(fit: SplitFit, recoding: Recoding, restored: float) -> Finding:
    named = [(name if i is None else f"{name}[:, {i}]", codes) for name, i, codes in recoding.columns]
    column = named[0][0]
    says = f"With the codes of `{column}` in `{fit.name}` renumbered, a trained copy predicts its targets"
    rows = tuple((name, a, b) for name, pairs in named for a, b in pairs)
    table = Table(
        ("column", "code in the split", "code in training"), rows, "A numbering that fits the training data better"
    )
    columns = [[name, index, [list(pair) for pair in pairs]] for name, index, pairs in recoding.columns]
    patch = Patch("recode-split", {"split": fit.name, "columns": columns})
    return _finding(fit, says, recoding.skill, restored, replace(ONE_ENCODER, patch=patch), table)


def _finding(
    fit: SplitFit, says: str, skill: float, restored: float, remedy: Remedy, exhibit: Table | None = None
) -> Finding:
    return Finding(
        f"{says} with a skill of {skill:.2f}; as they are, {fit.skill:.2f} (held-out training samples: "
        f"{fit.held_out:.2f}; 0: constant prediction, 1: perfect).",
        where=fit.name,
        evidence={
            "skill as it is": fit.skill,
            "skill with the change": skill,
            "skill on held-out training samples": fit.held_out,
            "samples": fit.samples,
            "threshold": restored,
            "source": "comparison within the run; chosen on one half of the samples, measured on the other",
        },
        remedies=(remedy,),
        exhibit=exhibit,
    )
