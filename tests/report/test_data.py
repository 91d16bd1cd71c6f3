"""Reports as data: read back, compared, summed up for pull requests and for a CI."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import nbdebug
from nbdebug.charts import Lines
from nbdebug.core.finding import Finding, Place, Result
from nbdebug.errors import BadInput
from nbdebug.report import Report
from nbdebug.report.markdown import as_summary
from nbdebug.report.schema import report_schema
from tests.report.hostile import hostile
from tests.report.payloads import PAYLOADS
from tests.report.samples import healthy, small

PAGE = Path(__file__).parents[2] / "docs" / "report-schema.md"


def test_a_saved_report_is_read_back_whole(tmp_path: Path) -> None:
    path = small().save(tmp_path / "deep" / "x.json", include_samples=True)
    assert nbdebug.load(path).to_dict() == small().to_dict()
    assert nbdebug.load(str(path)).save(tmp_path / "x.html").stat().st_size > 10_000
    assert [p.name for p in path.parent.iterdir()] == ["x.json"]  # no partial file is left


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1, 2]", "contains a list"),
        ("{}", "not an nbdebug report"),
        ('{"schema": 99}', "install a newer nbdebug"),
        ('{"schema": 1}', "broken: KeyError: 'findings'"),
        ('{"schema": 1, "findings": 3}', "broken: TypeError"),
        ('{"schema": 1, "findings": [{"severity": "fatal"}]}', "broken"),
        ('{"cells": [], "nbformat": 4}', "not an nbdebug report"),
        ("\x80PK", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_foreign_files_are_refused_plainly(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match=re.escape(said)):
        nbdebug.load(path)


def test_an_unknown_ending_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"\.html, \.ipynb, \.json, \.md, \.sarif"):
        small().save(tmp_path / "x.pdf")
    assert not list(tmp_path.iterdir())


def schema_of(kind: str) -> dict[str, Any]:
    """Return the part of the schema that describes one kind of object."""
    whole = report_schema()
    part: dict[str, Any] = whole if kind == "report" else whole["$defs"][kind]
    return part


def test_every_key_is_in_the_schema_and_on_its_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    data = placed().to_dict()
    assert f"schema {data['schema']}" in text and schema_of("report")["properties"]["schema"] == {
        "const": data["schema"],
        "description": schema_of("report")["properties"]["schema"]["description"],
    }
    described = {
        "report": data,
        "finding": data["findings"][0],
        "remedy": data["findings"][0]["remedies"][0],
        "verification": data["findings"][0]["verifications"][0],
        "contest": data["findings"][0]["verifications"][0]["contests"][0],
        "result": data["results"][0],
        "place": data["places"]["head.1"],
        **{e["kind"]: e for e in (f["exhibit"] for f in data["findings"]) if e},
    }
    for name, value in described.items():
        assert set(schema_of(name)["properties"]) == set(value), f"describe it in report.schema.json: {name}"
        section = re.search(rf"^##+ {name}\n(.*?)(?=^##|\Z)", text, flags=re.DOTALL | re.MULTILINE)
        assert section, name
        assert set(re.findall(r"^\| `(\w+)`", section[1], flags=re.MULTILINE)) == set(value), name


def placed() -> Report:
    """Return a report in which the place of a finding is known, and a curve was recorded."""
    curve = Lines((("loss", (0.0, 1.0), (2.3, float("nan"))),), "Loss")
    return replace(
        small(), places={"head.1": Place("net.py", 3, "self.head = …")}, curves=(curve,), stopped="cancelled"
    )


@pytest.mark.parametrize("report", [small(), placed(), healthy(), hostile(PAYLOADS)])
def test_what_is_written_fits_the_schema(report: Report, tmp_path: Path) -> None:
    Draft202012Validator.check_schema(report_schema())
    check = Draft202012Validator(report_schema())
    check.validate(json.loads(report.save(tmp_path / "x.json").read_text(encoding="utf-8")))
    check.validate(json.loads(json.dumps(report.to_dict())))


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("schema",), 2),
        (("findings", 0, "severity"), "fatal"),
        (("findings", 0, "exhibit", "kind"), "pie"),
        (("findings", 0, "verifications", 0, "contests", 0, "before"), "many"),
        (("results", 0, "status"), "fine"),
        (("curves", 0, "series", 0), ["loss", [1.0]]),
        (("stopped",), "somehow"),
    ],
)
def test_the_schema_refuses_what_is_not_a_report(path: tuple[str | int, ...], wrong: object) -> None:
    data = json.loads(json.dumps(placed().to_dict()))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = wrong
    assert list(Draft202012Validator(report_schema()).iter_errors(data)), path


def test_the_difference_tells_fixed_from_not_looked_at() -> None:
    before = Report(
        [
            Finding("a", "head", "bug", check="one"),
            Finding("b", "head", "suspect", check="two"),
            Finding("c", "body", "suspect", check="three"),
            Finding("d", "", "bug", check="four"),
            Finding("e", "", "bug", check="five"),
        ],
        [Result(check, "found") for check in ("one", "two", "three", "four", "five")],
    )
    after = Report(
        [
            Finding("b2", "head", "bug", check="two"),
            Finding("c2", "body", "suspect", check="three"),
            Finding("n", check="six"),
        ],
        [
            Result("one", "clean"),
            Result("four", "skipped", reason="no loader"),
            Result("two", "found"),
            Result("six", "found"),
        ],
    )
    change = before.diff(after)
    assert [f.check for f in change.fixed] == ["one"]
    assert [f.check for f in change.new] == ["six"]
    assert [(a.severity, b.severity) for a, b in change.changed] == [("suspect", "bug")]
    assert [b.says for _, b in change.still] == ["c2"]
    assert [(f.check, why) for f, why in change.unseen] == [
        ("four", "skipped: no loader"),
        ("five", "the check did not run"),
    ]
    assert change.is_worse
    text = str(change)
    assert text.startswith("1 fixed, 1 new, 1 changed, 1 unchanged, 2 not rechecked.")
    assert "bug two at head: b2 (was suspect)" in text
    assert "nbd-badge" in change._repr_html_() and repr(change).startswith("<nbdebug difference: 1 fixed")


def test_a_report_differs_from_itself_in_nothing() -> None:
    change = small().diff(small())
    assert len(change.still) == len(small().findings) and not change.is_worse
    assert not (change.fixed or change.new or change.changed or change.unseen)
    assert str(healthy().diff(healthy())) == "No findings before or after."
    assert not small().diff(healthy()).is_worse and healthy().diff(small()).is_worse


def test_the_summary_is_short_and_complete(tmp_path: Path) -> None:
    text = small().save(tmp_path / "x.md").read_text(encoding="utf-8")
    assert text.startswith("## nbdebug: ") and len(text) < 6_000
    for part in (
        "head.1",
        "2.301",
        "```python",
        "cannot-overfit-batch",
        "vanishing-gradients",
        "no validation loader",
        "seed 0",
    ):
        assert part in text, part
    assert "No problems found: 15 checks passed" in as_summary(healthy())


def test_no_payload_mentions_people_or_starts_a_formula() -> None:
    outside = re.sub(
        r"<code>.*?</code>|```.*?```", "", as_summary(hostile(["@everyone $x$ #12 \\(y\\)"])), flags=re.DOTALL
    )
    assert not re.search(r"@|\$|#\d(?<!&#\d)|\\\(", outside.replace("&#", "&"))


def test_sarif_has_a_rule_for_each_check_and_a_level_for_each_finding(tmp_path: Path) -> None:
    report = small()
    log = json.loads(report.save(tmp_path / "x.sarif").read_text(encoding="utf-8"))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [result.check for result in report.results]
    assert len(run["results"]) == len(report.findings)
    for result, finding in zip(run["results"], report.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.check
        assert result["level"] == {"bug": "error", "suspect": "warning", "note": "note"}[finding.severity]
        assert finding.says in result["message"]["text"]
    notices = run["invocations"][0]["toolExecutionNotifications"]
    assert len(notices) == 4 and not run["invocations"][0]["executionSuccessful"]
    again = json.loads(replace(report, made="later").save(tmp_path / "y.sarif").read_text(encoding="utf-8"))
    assert again["runs"][0]["results"] == run["results"]


def test_every_payload_survives_every_data_form(tmp_path: Path) -> None:
    report = hostile(PAYLOADS)
    for ending in ("json", "sarif"):
        json.loads(report.save(tmp_path / f"x.{ending}").read_text(encoding="utf-8"))
    assert len(nbdebug.load(tmp_path / "x.json").findings) == len(report.findings)
