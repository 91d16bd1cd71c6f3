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
    "diagnose": "nbdebug.engine.diagnosis",
    "explain": "nbdebug.engine.explanation",
    "explain_error": "nbdebug.engine.explain_error",
    "bisect": "nbdebug.engine.bisection.bisecting",
    "diff_setups": "nbdebug.engine.bisection.differences",
    "analyse_errors": "nbdebug.improve.analysis",
    "compare": "nbdebug.improve.comparison",
    "decompose": "nbdebug.improve.decomposition",
    "k_fold": "nbdebug.improve.folds",
    "starter": "nbdebug.improve.starting",
    "tune": "nbdebug.improve.tuning",
    "list_checks": "nbdebug.engine.explanation",
    "load": "nbdebug.report.writing",
    "verify": "nbdebug.fixes.verification",
    "check": "nbdebug.core.registry",
    "probe": "nbdebug.core.registry",
    "Finding": "nbdebug.core.finding",
    "Options": "nbdebug.core.options",
    "Patch": "nbdebug.core.remedy",
    "Remedy": "nbdebug.core.remedy",
    "Result": "nbdebug.core.finding",
    "Verification": "nbdebug.core.verification",
    "Report": "nbdebug.report",
    "BadInput": "nbdebug.errors",
    "NbdebugError": "nbdebug.errors",
    "NotApplicable": "nbdebug.errors",
    "Control": "nbdebug.core.control",
    "tree": "nbdebug.report.tree",
    "Setup": "nbdebug.setup",
    "Sandbox": "nbdebug.sandbox",
    "Session": "nbdebug.engine.session",
    "follow_predictions": "nbdebug.watch.following",
    "tap": "nbdebug.watch.taps",
    "ExpectationFailed": "nbdebug.watch.taps",
    "evidence": "nbdebug.evidence",
    "charts": "nbdebug.charts",
    "load_ipython_extension": "nbdebug.integrations.magics",
    "unload_ipython_extension": "nbdebug.integrations.magics",
    "watch": "nbdebug.watch",
    "show_activations": "nbdebug.views.activations",
    "show_batch": "nbdebug.views.batch",
    "show_gradients": "nbdebug.views.gradients",
    "show_layers": "nbdebug.views.layers",
    "show_live": "nbdebug.views.live",
    "wizard": "nbdebug.widgets.wizard",
}

__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:
    from nbdebug.core.control import Control as Control
    from nbdebug.core.finding import Finding as Finding
    from nbdebug.core.finding import Result as Result
    from nbdebug.core.options import Options as Options
    from nbdebug.core.registry import check as check
    from nbdebug.core.registry import probe as probe
    from nbdebug.core.remedy import Patch as Patch
    from nbdebug.core.remedy import Remedy as Remedy
    from nbdebug.core.verification import Verification as Verification
    from nbdebug.engine.bisection.bisecting import bisect as bisect
    from nbdebug.engine.bisection.differences import diff_setups as diff_setups
    from nbdebug.engine.diagnosis import diagnose as diagnose
    from nbdebug.engine.explain_error import explain_error as explain_error
    from nbdebug.engine.explanation import explain as explain
    from nbdebug.engine.explanation import list_checks as list_checks
    from nbdebug.engine.session import Session as Session
    from nbdebug.errors import BadInput as BadInput
    from nbdebug.errors import NbdebugError as NbdebugError
    from nbdebug.errors import NotApplicable as NotApplicable
    from nbdebug.fixes.verification import verify as verify
    from nbdebug.improve.analysis import analyse_errors as analyse_errors
    from nbdebug.improve.comparison import compare as compare
    from nbdebug.improve.decomposition import decompose as decompose
    from nbdebug.improve.folds import k_fold as k_fold
    from nbdebug.improve.starting import starter as starter
    from nbdebug.improve.tuning import tune as tune
    from nbdebug.integrations.magics import load_ipython_extension as load_ipython_extension
    from nbdebug.integrations.magics import unload_ipython_extension as unload_ipython_extension
    from nbdebug.report import Report as Report
    from nbdebug.report.tree import tree as tree
    from nbdebug.report.writing import load as load
    from nbdebug.sandbox import Sandbox as Sandbox
    from nbdebug.setup import Setup as Setup
    from nbdebug.views.activations import show_activations as show_activations
    from nbdebug.views.batch import show_batch as show_batch
    from nbdebug.views.gradients import show_gradients as show_gradients
    from nbdebug.views.layers import show_layers as show_layers
    from nbdebug.views.live import show_live as show_live
    from nbdebug.watch.following import follow_predictions as follow_predictions
    from nbdebug.watch.taps import ExpectationFailed as ExpectationFailed
    from nbdebug.watch.taps import tap as tap
    from nbdebug.widgets.wizard import wizard as wizard


_FORMER_NAMES = {"Subject": "Setup", "Twin": "Sandbox", "exhibit": "charts"}


def __getattr__(name: str) -> Any:
    name = _FORMER_NAMES.get(name, name)
    if name not in _HOMES:
        raise AttributeError(f"module 'nbdebug' has no attribute {name!r}")
    from nbdebug.core.rng_safe_import import drawing_nothing

    with drawing_nothing():
        home = importlib.import_module(_HOMES[name])
    value = home if _HOMES[name] == f"nbdebug.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
