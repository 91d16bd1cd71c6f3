"""The one sentence on how a report stands: true of the whole run, and of how much of it was made."""

from dataclasses import replace

import pytest

from nbdebug.charts import Exhibit
from nbdebug.core.finding import LeftOut, Result
from nbdebug.report import Report
from nbdebug.report.page import Proof, as_fragment, part_fragment, result_fragments
from nbdebug.report.terminal import as_text
from nbdebug.report.verdict import part_line, verdict
from tests.report.samples import healthy, small

PASSED = [Result(f"check-{n}", "clean") for n in range(3)]
NO_LOADER = Result("split-leakage", "skipped", reason="there is no val_loader")


def report(*more: Result, notes: list[str] | None = None, not_run: tuple[str, ...] = ()) -> Report:
    return Report([], [*PASSED, *more], notes=notes or [], not_run=not_run)


def test_a_complete_run_without_findings_counts_what_that_is_based_on() -> None:
    assert verdict(report(NO_LOADER)) == "No problems found: 3 checks passed, 1 not applicable."


def test_what_crashed_is_named() -> None:
    crashes = [Result(f"crash-{n}", "crashed", reason="ValueError: no") for n in range(5)]
    assert verdict(report(crashes[0])) == "No problems found: 3 checks passed, 1 crashed (crash-0)."
    assert verdict(report(*crashes)).endswith("5 crashed (crash-0, crash-1, crash-2, and 2 more).")
    assert verdict(Report([], crashes[:1])) == "Nothing could be checked: 1 check crashed (crash-0)."


@pytest.mark.parametrize("reason", ["canceled by the user", "interrupted", "the time limit was reached"])
def test_a_run_that_was_stopped_says_so_first(reason: str) -> None:
    stopped = report(NO_LOADER, Result("late", "skipped", reason=reason, left_out="stopped"), not_run=("later",))
    assert verdict(stopped) == (
        "Stopped after 4 of 6 checks: no problems found so far (3 checks passed, 1 not applicable)."
    )
    for form in (as_fragment(stopped), result_fragments(stopped)[0], as_text(stopped, 200)):
        assert "Stopped after 4 of 6 checks" in form
    cause = replace(small(), not_run=("later",), stopped="interrupted")
    assert verdict(cause).startswith("Stopped after 15 of 16 checks: so far the most likely cause is softmax-before-")
    assert "Stopped after 15 of 16 checks" in result_fragments(cause)[0]


@pytest.mark.parametrize("left_out", ["quick", "user", "time"])
def test_what_was_left_out_is_not_called_inapplicable(left_out: LeftOut) -> None:
    assert verdict(report(Result("late", "skipped", reason="why", left_out=left_out))) == (
        "After 3 of 4 checks: no problems found so far (3 checks passed)."
    )


def test_a_running_one_is_not_the_last_word() -> None:
    assert verdict(report(), running=True) == "Running: no problems found so far."
    answer, picture, rest = result_fragments(small(), running=True)
    assert "most likely cause so far" in answer and picture == Proof() and rest == ""


def test_a_part_says_what_it_tested_and_nothing_about_the_model() -> None:
    assert part_line(report(NO_LOADER), "step") == "This step: 3 checks passed, 1 not applicable."
    assert part_line(Report([], [NO_LOADER]), "step") == "This step: 1 check not applicable."
    for part in (healthy(), small(), report(not_run=("later",))):
        shown = part_fragment(part, "stage", {})
        assert "This stage: " in shown and "<h1" not in shown and "No problems" not in shown


def test_the_chart_of_an_explained_finding_stands_for_a_cause_without_one() -> None:
    whole = small()
    first, symptom = whole.findings[:2]
    explains = replace(first, explains=(symptom.check,), verifications=[])
    own = result_fragments(replace(whole, findings=[explains, symptom]))[1].above
    borrowed = result_fragments(replace(whole, findings=[replace(explains, exhibit=None), symptom]))[1].above
    assert f"Measured by <code>{symptom.check}</code>" in borrowed and "Measured by" not in own
    assert borrowed.count("<img") == own.count("<img") > 0
    live = result_fragments(replace(whole, findings=[explains, symptom]), live=(Exhibit,))[1]
    assert live.charts == (explains.exhibit,) and "<img" not in live.above + live.below


def test_not_run_is_kept_in_the_saved_report() -> None:
    assert Report.from_dict(report(not_run=("later",)).to_dict()).not_run == ("later",)
