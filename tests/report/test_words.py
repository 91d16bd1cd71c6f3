"""Texts of the user's: made safe to show, shortened, and without the folders of file paths."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from nbdebug.core.finding import Result
from nbdebug.core.text import clean_text, figure, redacted, shortened
from nbdebug.report import Report
from nbdebug.report.verdict import verdict
from nbdebug.report.words import not_seen
from tests.report.samples import healthy, small


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('File "/home/alice/secret project/train.py", line 3', 'File "…/train.py", line 3'),
        ("No such file: /mnt/clients/acme/data.csv", "No such file: …/data.csv"),
        ("at /Users/alice/x.py:12", "at …/x.py:12"),
        (r"C:\Users\alice\work\model.pt is missing", "…/model.pt is missing"),
        (r"'C:\\Users\\alice\\work dir\\model.pt'", "'…/model.pt'"),
        (r"\\server\share\alice\x.bin", "…/x.bin"),
        ("file:///home/alice/a/b.html", "…/b.html"),
        ("~/work/acme/x.py", "…/x.py"),
        ("in /home/alice", "in ~"),
        ("(/data/alice/a.txt)", "(…/a.txt)"),
        ("key=/data/alice/a.txt,", "key=…/a.txt,"),
    ],
)
def test_folders_are_left_out(text: str, wanted: str) -> None:
    assert redacted(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "and/or",
        "3/4 of the samples",
        "loss / chance = 2.3 / 4",
        "https://pytorch.org/docs/stable/nn.html",
        "encoder.layers.0/1",
        "x = a//b",
        "</div>",
        "a 1/n weighting",
        r"a\nb",
        "tp/fp/fn",
    ],
)
def test_what_is_no_path_stays(text: str) -> None:
    assert redacted(text) == text


def test_the_home_of_the_person_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from nbdebug.core import text as words

    monkeypatch.setattr(Path, "home", lambda: Path("/srv/people/alice"))
    words._home.cache_clear()
    assert "alice" not in redacted("cannot open /srv/people/alice")
    assert "alice" not in redacted("cannot open '/srv/people/alice/x y/z.py'")
    words._home.cache_clear()


@pytest.mark.parametrize(
    "text", ["/a" * 20_000, "\\" * 20_000, '"/' * 10_000, "C:\\" * 8_000, "~/" * 10_000, "'/a b" * 5000]
)
def test_long_texts_are_redacted_in_no_time(text: str) -> None:
    started = time.process_time()
    redacted(text)
    assert time.process_time() - started < 1


def test_invisible_characters_become_visible() -> None:
    assert clean_text("a\x1b[31m\u202eb\0\ud800") == "a\ufffd[31m\ufffdb\ufffd?"
    assert clean_text("日本語 👩‍👧 é\n\t") == "日本語 👩‍👧 é\n\t"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (True, "yes"),
        (None, "none"),
        (1234567, "1,234,567"),
        (0.000123456, "0.0001235"),
        (12345.678, "12,345.7"),
        (float("nan"), "NaN"),
        (float("-inf"), "-∞"),
        ([1, 2.5, "x"], "1, 2.5, x"),
        ({"a": 1}, "a: 1"),
        (list(range(20)), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 8 more"),
        ("text", "text"),
    ],
)
def test_values_are_written_for_people(value: object, wanted: str) -> None:
    assert figure(value) == wanted


def test_a_cut_text_says_how_much_is_missing() -> None:
    assert shortened("x " * 1000, 100).endswith("… (1,900 characters more)")
    assert shortened("x " * 60, 100) == "x " * 60  # no point in saying that 20 are missing
    assert len(shortened("x" * 1000)) == 131  # a word without a break
    assert shortened("長い文" * 300) == "長い文" * 300  # these break anywhere


def test_the_verdict_names_the_cause_and_its_place() -> None:
    assert verdict(small()).startswith(
        "The most likely cause is softmax-before-cross-entropy at head.1, and there are 4 more"
    )
    assert verdict(healthy()) == "No problems found: 15 checks passed."


def test_only_a_stop_stops_a_run() -> None:
    """A note that speaks of stopping decides nothing, and neither does one that speaks of an interrupt."""
    spoken = replace(healthy(), notes=["Your early_stopped hook runs on the copy.", "The feed was interrupted."])
    assert verdict(replace(spoken, not_run=("a",))).startswith("After 15 of 16 checks:")
    stopped = replace(healthy(), stopped="interrupted", not_run=("a",))
    assert verdict(stopped).startswith("Stopped after 15 of 16 checks: no problems found so far")
    assert Report.from_dict(stopped.to_dict()).stopped == "interrupted"


def test_reports_of_before_still_say_that_they_were_stopped() -> None:
    data = replace(healthy(), notes=["The run was stopped: interrupted."]).to_dict()
    del data["stopped"]
    for result in data["results"]:
        del result["left_out"]
    old = Report.from_dict(data)
    assert old.stopped == "interrupted"
    data["notes"] = ["The run was stopped: the time limit of 3 s was reached."]
    assert Report.from_dict(data).stopped == "cancelled"
    data["notes"] = ["Nothing was stopped."]
    assert Report.from_dict(data).stopped == ""


def test_what_does_not_apply_is_counted_and_what_crashed_is_named() -> None:
    """One line each, however many checks were skipped."""
    skipped = [Result(f"check-{i}", "skipped", reason=f"reason {i}") for i in range(42)]
    crashed = [Result("broken", "crashed", reason="ValueError: x")]
    unasked = [Result(f"late-{i}", "skipped", reason="the time limit", left_out="stopped") for i in range(7)]
    report = replace(healthy(), results=[*skipped, *crashed, *unasked])
    assert not_seen(report) == [
        "crashed: broken (ValueError: x)",
        "7 checks not reached before the run was stopped.",
        "42 checks not applicable; `report.results` says why.",
    ]
    assert "check-7" not in str(report) and "broken" in str(report)
    few = replace(healthy(), results=skipped[:2])
    assert not_seen(few) == ["skipped: check-0 (reason 0)", "skipped: check-1 (reason 1)"]
