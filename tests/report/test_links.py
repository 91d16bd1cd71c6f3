"""Links from a finding to its place: in the page, and to the user's file where that is safe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nbdebug.core.finding import Finding, Place, Result
from nbdebug.report import Report
from nbdebug.report.links import link_to
from nbdebug.report.page import as_fragment
from tests.report.payloads import PAYLOADS


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a module of the user's."""
    work = tmp_path / "work"
    (work / "my net").mkdir(parents=True)
    (work / "my net" / "model.py").write_text("self.head = nn.Linear(3, 3)\n")
    (tmp_path / "outside.py").touch()
    monkeypatch.chdir(work)
    return work


def report(file: str = "my net/model.py") -> Report:
    findings = [Finding("Dead.", "head", check="dead-units"), Finding("Off.", "", severity="note", check="loss-flat")]
    places = {"head": Place(file, 1, "self.head = nn.Linear(3, 3)")}
    return Report(findings, [Result(f.check, "found", (f,)) for f in findings], places=places)


def addresses(page: str) -> list[str]:
    return [link for link in re.findall(r'href="([^"]*)"', page) if not link.startswith("#")]


def test_the_page_links_to_the_file_as_seen_from_itself(here: Path) -> None:
    for name, address in (("x.html", "./my%20net/model.py"), ("deep/er/x.html", "../../my%20net/model.py")):
        path = report().save(here / name)
        assert addresses(path.read_text(encoding="utf-8")) == [address]
        assert (path.parent / address.replace("%20", " ")).is_file()
    assert addresses(as_fragment(report())) == ["./my%20net/model.py"]


def test_the_notebook_links_as_well(here: Path) -> None:
    cells = json.loads(report().save(here / "x.ipynb").read_text(encoding="utf-8"))["cells"]
    assert "Defined in [my net/model.py, line 1](./my%20net/model.py)" in "".join(cells[0]["source"])


def test_a_report_that_goes_elsewhere_tells_no_folders(here: Path, tmp_path: Path) -> None:
    for ending in ("html", "ipynb", "json", "md", "sarif"):
        text = report().save(tmp_path / f"x.{ending}").read_text(encoding="utf-8")
        assert "model.py" in text and str(tmp_path) not in text and tmp_path.name not in text
        assert not (ending == "html" and addresses(text))


@pytest.mark.parametrize(
    "file",
    ["../outside.py", "/etc/hosts.py", "gone.py", "cell [3]", "file:x.py", "..\\outside.py", "//evil.example/x.py"],
)
def test_no_link_where_it_would_lead_astray(here: Path, file: str) -> None:
    assert link_to(Place(file, 1)) == ""
    assert addresses(as_fragment(report(file))) == []


def test_hostile_places_are_no_links(here: Path) -> None:
    for text in PAYLOADS:
        assert link_to(Place(text, 1)) == "" and link_to(Place(f"{text}.py", 1)) == ""


def test_a_finding_links_to_its_place_within_the_page(here: Path) -> None:
    page = report().save(here / "x.html").read_text(encoding="utf-8")
    inner = set(re.findall(r'href="#([^"]+)"', page))
    assert "place-1" in inner
    assert inner <= set(re.findall(r'id="([^"]+)"', page))
