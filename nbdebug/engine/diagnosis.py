"""The whole tree without questions: `diagnose` and `explain`."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdebug.core.control import Control, Effort, limit_for
from nbdebug.core.options import OPTION_NAMES, Options, check_switch, checked_effort, options_from
from nbdebug.core.registry import registry
from nbdebug.engine.all_ranks import gathering
from nbdebug.engine.budgeting import in_budget_order, says_budget, time_one_step, trains
from nbdebug.engine.decision_tree import checks_for, find_symptom, tree_order
from nbdebug.engine.ranking import ranked
from nbdebug.engine.root_cause import arbitrate
from nbdebug.engine.session import Session
from nbdebug.engine.sharded import without_values
from nbdebug.engine.source_changes import write_diffs
from nbdebug.engine.verdicts import settle
from nbdebug.errors import plainly
from nbdebug.report import Report
from nbdebug.report.progress import Shown, progress_bar
from nbdebug.report.report import environment, now
from nbdebug.sandbox.stand_in import standing_in
from nbdebug.setup import Setup
from nbdebug.setup.batch_layout import unwrap
from nbdebug.setup.source_locations import places_of

if TYPE_CHECKING:
    from torch import nn

__all__ = ["DIAGNOSE_NAMES", "conclude", "diagnose", "report_of", "run_within_budget"]

QUICK_SAMPLES = 256


@plainly
def diagnose(
    model: nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module],
    loader: Any,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: Any = None,
    *,
    val_loader: Any = None,
    train_step: Callable[..., Any] | None = None,
    compute_loss: Callable[..., Any] | None = None,
    class_names: Sequence[str] | None = None,
    symptom: str | None = None,
    effort: Effort = "normal",
    progress: Shown = True,
    options: Options | None = None,
    **more: Any,
) -> Report:
    """Run every check on a copy of the model, and return a report with the most likely cause first.

    Only `model` and `loader` are needed. Nothing of yours is changed. Ctrl-C ends the run with the report of what was
    found so far. In a distributed training, call it on every rank: the report of rank 0 holds what all of them found.

    Args:
        model: Your model; several networks as a dict or a list, with the `train_step` that calls them.
        loader: The DataLoader of the training data, or any iterable of batches.
        loss_fn: Your loss; without one it is inferred from outputs and targets, and the report says which and why.
        optimizer: Your optimizer, or several as a dict or a list; Adam on the copy by default.
        val_loader: The validation data, for leakage, distribution shift and different preprocessing.
        train_step: `train_step(model, batch, loss_fn, optimizer) -> loss`: the body of your training loop, so that
            its bugs are found.
        compute_loss: `compute_loss(model, batch, loss_fn) -> loss`: how a batch that is not a pair of input and target
            is used.
        class_names: Names of the classes, for the report.
        symptom: What you see, such as "loss is NaN"; its most likely causes are checked first.
        effort: "normal" takes about a minute at most, what is cheap and most likely first; "thorough" has no limit;
            "quick" trains nothing and takes about as long as 40 training steps.
        progress: Whether a progress bar is shown, or a function that is called with each event.
        options: The less common arguments, as `nbdebug.Options`.
        **more: The fields of `nbdebug.Options`, as keywords.
    """
    options = options_from(options, more, function="nbdebug.diagnose", others=DIAGNOSE_NAMES)
    if not callable(progress):
        check_switch(progress, "progress")
    effort = checked_effort(effort, options.quick)
    given = options.of_setup | {"val_loader": val_loader, "train_step": train_step, "compute_loss": compute_loss}
    if effort == "quick":
        given["sweep_samples"] = min(options.sweep_samples, QUICK_SAMPLES)
    setup = Setup(model, loader, loss_fn, optimizer, class_names=class_names, **given)
    registry.load()  # before the clock starts
    control = Control(time_limit=limit_for(effort, options.time_limit), quick=effort == "quick")
    return _diagnosed(setup, control, options, symptom, progress)


DIAGNOSE_NAMES = frozenset(inspect.signature(diagnose).parameters) | OPTION_NAMES


def _diagnosed(setup: Setup, control: Control, options: Options, symptom: str | None, progress: Shown) -> Report:
    examined, how = standing_in(setup, control)
    session = Session(
        examined,
        control=control,
        thresholds=options.thresholds,
        seed=options.seed,
        symptom=symptom,
        answers=options.answers,
    )
    todo = _wanted(session, options)
    if how:
        session.journal.note(how)
    with gathering(setup, session.control) as ranks:
        examined.meeting, examined.meeting_facts = setup.meeting, setup.meeting_facts
        shown = progress if ranks.speaks else False
        started = time.perf_counter()
        with progress_bar(session, todo, shown=shown) as say:
            run_within_budget(session, without_values(session, todo), say)
        if options.tell_apart and not control.quick and session.journal.stopped in ("", "out of time"):
            conclude(session, shown=shown)
        else:
            write_diffs(session)
        session.journal.arrange(todo)
        return ranks.gathered(report_of(session, seconds=time.perf_counter() - started))


def _wanted(session: Session, options: Options) -> list[str]:
    """Return the ids of the checks to run, those that the symptom points to first."""
    left_out = {session.registry.find(check).id for check in options.skip}
    if options.checks is None:
        wanted = checks_for(session.journal.symptom, session.registry)
    else:
        wanted = [session.registry.find(check).id for check in options.checks]
    return [check for check in wanted if check not in left_out]


def run_within_budget(session: Session, checks: Sequence[str], say: Callable[[str], None] = lambda _: None) -> None:
    """Run these checks, the cheap and most likely first; where time is limited, time a step and say how far it goes."""
    control = session.control
    is_long = control.has_budget and not control.quick and trains(checks, session.registry)

    def begin() -> None:
        say(says_budget(control, time_one_step(session) if is_long else math.nan))

    session.run(in_budget_order(checks, session.registry), first=begin)


def conclude(session: Session, *, shown: Shown) -> None:
    """Judge the alarms of a whole run by intervention; where no training could be judged, tell causes from symptoms.

    Then write the fixes as diffs of the user's own code.
    """
    order = tree_order(session.registry)
    if not settle(session, order, shown=shown):
        arbitrate(session, order, shown=shown)
    write_diffs(session)


def report_of(session: Session, *, seconds: float | None = None, planned: Iterable[str] = ()) -> Report:
    """Return the report of everything that a session's journal holds; without `seconds`, its checks' own are counted.

    Of the checks that are `planned`, those without a result are listed as not run.
    """
    known = {result.check for result in session.journal.results}
    findings = ranked(session.journal.findings, _reading_order(session))
    return Report(
        findings=findings,
        results=session.journal.results,
        setup=session.setup.description(),
        notes=[*session.journal.notes, *(note for feed in session.setup.feeds for note in feed.notes)],
        timings=dict(sorted(session.timings.items(), key=lambda item: -item[1])),
        environment=environment() | {"seed": str(session.seed)} | _limit_of(session.control),
        seconds=sum(result.seconds for result in session.journal.results) if seconds is None else seconds,
        made=now(),
        places=places_of(unwrap(session.setup.model), (finding.where for finding in findings)),
        symptom=session.journal.symptom,
        answers=session.journal.answers,
        not_run=tuple(check for check in planned if check not in known),
        stopped=session.journal.stopped,
    )


def _limit_of(control: Control) -> dict[str, str]:
    return {"time limit": f"{control.budget:.3g} s"} if control.has_budget else {}


def _reading_order(session: Session) -> list[str]:
    """Return every check in the order of the tree, behind those that answer the user's complaint itself."""
    symptom = session.journal.symptom
    first = find_symptom(symptom).answered_by if symptom else ()
    return [*first, *(check for check in tree_order(session.registry) if check not in first)]
