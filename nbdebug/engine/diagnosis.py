"""The whole tree without questions: `diagnose` and `explain`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbdebug.core.control import Control, Effort, limit_for
from nbdebug.core.options import checked_effort, checked_ids, checked_options
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

__all__ = ["conclude", "diagnose", "report_of", "run_within_budget"]

QUICK_SAMPLES = 256


@plainly
def diagnose(
    model: nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module],
    loader: Any,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: Any = None,
    *,
    val_loader: Any = None,
    test_loader: Any = None,
    train_step: Callable[..., Any] | None = None,
    compute_loss: Callable[..., Any] | None = None,
    loss_parts: Callable[..., Any] | None = None,
    scheduler: Any = None,
    class_names: Sequence[str] | None = None,
    checkpoint: Any = None,
    checks: Iterable[str] | None = None,
    skip: Iterable[str] = (),
    thresholds: Mapping[str, Mapping[str, Any]] | None = None,
    effort: Effort = "normal",
    quick: bool = False,
    time_limit: float | None = None,
    seed: int = 0,
    sweep_samples: int = 4096,
    sweep_seconds: float = 10.0,
    progress: Shown = True,
    symptom: str | None = None,
    answers: Mapping[str, Any] | None = None,
    tell_apart: bool = True,
) -> Report:
    """Walk the whole decision tree on a copy of the model and report what is wrong, the most likely cause first.

    Only `model` and `loader` are needed: the loss is then inferred and the report says so. Several networks and
    optimizers are passed as dicts or lists, with the `train_step` that calls them. Nothing of yours is changed.
    Ctrl-C ends the run with the report of what was found so far. A look at the data reads at most
    `sweep_samples` samples, drawn at random over the whole data set, within about `sweep_seconds`. A loss of several
    terms is looked into if `loss_parts(model, batch, loss_fn)` gives them by name. A `checkpoint` (a path or a state
    dict) is compared with the model's values. A `symptom` such as "loss is NaN" lets the checks that are most likely to
    explain it run first; `answers` to the tree's questions, by their ids, are kept in the report. Where several causes
    are left, each is fixed alone on a copy to find the root cause, unless `tell_apart` is False.
    A run takes about a minute at most with `effort="normal"`, spent on contradictions first, then on whether your
    training learns, then on why not; what does not fit is reported as not tried. `effort="thorough"` has no limit.
    `effort="quick"` (or `quick=True`) leaves out every experiment that trains or takes long, and looks at few batches
    and samples: about 40 training steps. `time_limit` sets another limit, in seconds. In a distributed training, call
    it on every rank: each examines its own, and the
    report of rank 0 holds what all of them found. `progress` may be a function that hears the events instead of a bar.
    """
    checked_options(
        thresholds=thresholds,
        time_limit=time_limit,
        seed=seed,
        progress=progress,
        tell_apart=tell_apart,
        samples=sweep_samples,
        seconds=sweep_seconds,
    )
    effort = checked_effort(effort, quick)
    setup = Setup(
        model,
        loader,
        loss_fn,
        optimizer,
        val_loader=val_loader,
        test_loader=test_loader,
        train_step=train_step,
        compute_loss=compute_loss,
        loss_parts=loss_parts,
        scheduler=scheduler,
        class_names=class_names,
        checkpoint=checkpoint,
        sweep_samples=min(sweep_samples, QUICK_SAMPLES) if effort == "quick" else sweep_samples,
        sweep_seconds=sweep_seconds,
    )
    registry.load()  # before the clock starts
    control = Control(time_limit=limit_for(effort, time_limit), quick=effort == "quick")
    examined, how = standing_in(setup, control)
    session = Session(
        examined,
        control=control,
        thresholds=thresholds,
        seed=seed,
        symptom=symptom,
        answers=answers,
    )
    left_out = {session.registry.find(check).id for check in checked_ids(skip, "skip")}
    if checks is None:
        wanted = checks_for(session.journal.symptom, session.registry)
    else:
        wanted = [session.registry.find(check).id for check in checked_ids(checks, "checks")]
    if how:
        session.journal.note(how)
    with gathering(setup, session.control) as ranks:
        examined.meeting, examined.meeting_facts = setup.meeting, setup.meeting_facts
        shown = progress if ranks.speaks else False
        started, todo = time.perf_counter(), [check for check in wanted if check not in left_out]
        with progress_bar(session, todo, shown=shown) as say:
            run_within_budget(session, without_values(session, todo), say)
        if tell_apart and effort != "quick" and session.journal.stopped in ("", "out of time"):
            conclude(session, shown=shown)
        else:
            write_diffs(session)
        session.journal.arrange(todo)
        return ranks.gathered(report_of(session, seconds=time.perf_counter() - started))


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
