"""A debugger for neural networks that lives in the notebook.

    report = nbdebug.diagnose(model, loader)

It runs experiments on a copy of your model, says what is wrong and where, and leaves your model exactly as it was.
Names are imported when they are first used, so that `import nbdebug` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "diagnose": "nbdebug.diagnosis",
    "explain": "nbdebug.explanation",
    "explain_error": "nbdebug.postmortem",
    "analyse_errors": "nbdebug.improve.analysis",
    "compare": "nbdebug.improve.comparison",
    "decompose": "nbdebug.improve.decomposition",
    "k_fold": "nbdebug.improve.folds",
    "starter": "nbdebug.improve.starting",
    "tune": "nbdebug.improve.tuning",
    "list_checks": "nbdebug.explanation",
    "load": "nbdebug.report.writing",
    "verify": "nbdebug.verifying",
    "check": "nbdebug.registry",
    "probe": "nbdebug.registry",
    "Finding": "nbdebug.finding",
    "Patch": "nbdebug.remedy",
    "Remedy": "nbdebug.remedy",
    "Result": "nbdebug.finding",
    "Verification": "nbdebug.verification",
    "Report": "nbdebug.report",
    "BadInput": "nbdebug.errors",
    "NbdebugError": "nbdebug.errors",
    "NotApplicable": "nbdebug.errors",
    "Control": "nbdebug.control",
    "tree": "nbdebug.report.tree",
    "Subject": "nbdebug.subject",
    "Twin": "nbdebug.twin",
    "Session": "nbdebug.session",
    "follow_predictions": "nbdebug.watch.following",
    "tap": "nbdebug.instruments",
    "ExpectationFailed": "nbdebug.instruments",
    "evidence": "nbdebug.evidence",
    "exhibit": "nbdebug.exhibit",
    "load_ipython_extension": "nbdebug.magics",
    "unload_ipython_extension": "nbdebug.magics",
    "watch": "nbdebug.watch",
    "show_activations": "nbdebug.show.activations",
    "show_batch": "nbdebug.show.batch",
    "show_gradients": "nbdebug.show.gradients",
    "show_layers": "nbdebug.show.layers",
    "show_live": "nbdebug.show.live",
    "wizard": "nbdebug.widgets.wizard",
}

__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:
    from nbdebug.control import Control as Control
    from nbdebug.diagnosis import diagnose as diagnose
    from nbdebug.errors import BadInput as BadInput
    from nbdebug.errors import NbdebugError as NbdebugError
    from nbdebug.errors import NotApplicable as NotApplicable
    from nbdebug.explanation import explain as explain
    from nbdebug.explanation import list_checks as list_checks
    from nbdebug.finding import Finding as Finding
    from nbdebug.finding import Result as Result
    from nbdebug.improve.analysis import analyse_errors as analyse_errors
    from nbdebug.improve.comparison import compare as compare
    from nbdebug.improve.decomposition import decompose as decompose
    from nbdebug.improve.folds import k_fold as k_fold
    from nbdebug.improve.starting import starter as starter
    from nbdebug.improve.tuning import tune as tune
    from nbdebug.instruments import ExpectationFailed as ExpectationFailed
    from nbdebug.instruments import tap as tap
    from nbdebug.magics import load_ipython_extension as load_ipython_extension
    from nbdebug.magics import unload_ipython_extension as unload_ipython_extension
    from nbdebug.postmortem import explain_error as explain_error
    from nbdebug.registry import check as check
    from nbdebug.registry import probe as probe
    from nbdebug.remedy import Patch as Patch
    from nbdebug.remedy import Remedy as Remedy
    from nbdebug.report import Report as Report
    from nbdebug.report.tree import tree as tree
    from nbdebug.report.writing import load as load
    from nbdebug.session import Session as Session
    from nbdebug.show.activations import show_activations as show_activations
    from nbdebug.show.batch import show_batch as show_batch
    from nbdebug.show.gradients import show_gradients as show_gradients
    from nbdebug.show.layers import show_layers as show_layers
    from nbdebug.show.live import show_live as show_live
    from nbdebug.subject import Subject as Subject
    from nbdebug.twin import Twin as Twin
    from nbdebug.verification import Verification as Verification
    from nbdebug.verifying import verify as verify
    from nbdebug.watch.following import follow_predictions as follow_predictions
    from nbdebug.widgets.wizard import wizard as wizard


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nbdebug' has no attribute {name!r}")
    from nbdebug.importing import drawing_nothing

    with drawing_nothing():
        home = importlib.import_module(_HOMES[name])
    value = home if _HOMES[name] == f"nbdebug.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
