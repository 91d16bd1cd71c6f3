"""The page and the fragment: complete, self-contained, and without what was not asked for."""

import base64
import hashlib
import re
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from nbdebug.charts import Bars
from nbdebug.core.finding import Finding, Result
from nbdebug.report import Report, words
from nbdebug.report.page import as_fragment, as_page
from tests.report.hostile import hostile
from tests.report.samples import healthy, small

SECTIONS = ["cause", "others", "notes", "crashed", "clean", "skipped", "run"]


def test_the_page_says_everything_in_reading_order() -> None:
    page = as_page(small())
    places = [page.index(f'<section id="{name}"') for name in SECTIONS]
    assert places == sorted(places)
    for text in (
        '<code class="nbd-place">head.1</code>',
        "falls to 0.01 without it",
        "Why it matters",
        "nn.Linear(64, 10)",
        "Explains 2 other findings",
        "no validation loader was given",
        "expected scalar type Half",
        "5,717,416",
        "2.13.0",
        "seed",
        "overfit_one_batch",
        "Adam with a rate",
    ):
        assert text in page, text


def test_symptoms_are_folded_under_their_cause_only() -> None:
    page = as_page(small())
    cause = page[page.index('<section id="cause"') : page.index('<section id="others"')]
    assert "cannot-overfit-batch" in cause and "Explained by" in cause
    assert "cannot-overfit-batch" not in page[page.index('<section id="others"') : page.index('<section id="run"')]


def test_the_page_asks_for_nothing_and_its_policy_forbids_it() -> None:
    page = as_page(small(), include_samples=True)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-")
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    addresses = set(re.findall(r"""(?:https?:)?//[\w.-]+\.[\w/.-]+""", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}, addresses
    assert not re.search(r"url\(|@import|<link|<iframe", page)


def test_the_fragment_has_no_script_and_only_styles_itself() -> None:
    fragment = as_fragment(small())
    assert "<script" not in fragment and "http-equiv" not in fragment and "<html" not in fragment
    style = re.search(r"<style>(.*?)</style>", fragment, flags=re.DOTALL)[1]
    for line in style.splitlines():
        if "{" in line and not line.startswith(("@", "  --", " ")):
            assert line.startswith(".nbdebug-"), line
    assert "var(--jp-" in style and "prefers-color-scheme: dark" in style
    assert "mathjax_ignore" in fragment  # class names are no formulas


def test_samples_are_shown_only_when_asked_for(tmp_path: Path) -> None:
    for ending in ("html", "json", "ipynb"):
        quiet = small().save(tmp_path / f"a.{ending}").read_text(encoding="utf-8")
        open_ = small().save(tmp_path / f"b.{ending}", include_samples=True).read_text(encoding="utf-8")
        assert "cat, sample 3" not in quiet, ending
        assert "cat, sample 3" in open_ or ending == "ipynb"  # there the caption is in the picture
        assert len(open_) > len(quiet) or ending == "json"
    assert "include_samples=True" in small().save(tmp_path / "c.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("ending", ["html", "ipynb", "json", "md", "sarif"])
def test_no_form_names_folders(tmp_path: Path, ending: str) -> None:
    secret = "/home/alice/acme/train.py"
    finding = Finding(f"raised in {secret}", secret, evidence={"path": secret, secret: [secret]}, check="x",
                      exhibit=Bars((secret,), (1.0,), title=secret))  # fmt: skip
    results = [Result("x", "found", (finding,)), Result("y", "crashed", reason=f'File "{secret}", line 3')]
    report = Report([finding], results, setup={"model": secret}, notes=[secret], environment={"python": secret})
    text = report.save(tmp_path / f"x.{ending}").read_text(encoding="utf-8")
    assert "alice" not in text and "acme" not in text
    assert "train.py" in text


def test_what_a_notebook_shows_names_no_folders() -> None:
    finding = Finding("raised in /home/alice/acme/train.py", check="x")
    bundle = Report([finding], [Result("x", "found", (finding,))])._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert not any("alice" in text for text in bundle.values())


def test_a_healthy_report_says_so_first() -> None:
    page = as_page(healthy())
    assert "<h1>No problems found: 15 checks passed.</h1>" in page
    assert 'id="cause"' not in page and "nbd-head nbd-fine" in page


def test_an_empty_report_is_a_page_too() -> None:
    assert "Nothing could be checked." in as_page(Report([], []))


def test_notes_alone_are_no_alarm() -> None:
    report = small()
    notes = [finding for finding in report.findings if not finding.is_alarm]
    page = as_page(replace(report, findings=notes))
    assert 'id="cause"' not in page and 'id="notes"' in page


def test_an_exhibit_that_cannot_be_drawn_loses_only_its_picture() -> None:
    broken = Finding("still said", check="x", exhibit=Bars(("a",), ("no number",)))  # type: ignore[arg-type]
    page = as_page(Report([broken], []))
    assert "still said" in page and "could not be drawn" in page


def test_a_thousand_findings_still_open() -> None:
    findings = [
        Finding(f"finding {i}", f"layer {i}", exhibit=Bars(("a",), (1.0,)), check=f"check-{i}") for i in range(1000)
    ]
    page = as_page(Report(findings, []))
    assert len(page) < 2_000_000 and page.count("<svg") <= 100


def test_the_page_stays_small() -> None:
    assert len(as_page(small(), include_samples=True)) < 200_000


def test_no_word_is_so_long_that_a_browser_stalls() -> None:
    text = re.sub(r"base64,[\w+/=]+", "", as_page(hostile(["A" * 10_000])) + as_fragment(hostile(["A" * 10_000])))
    assert not re.search("A{200,}", re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("ending", ["html", "ipynb", "md", "json", "sarif"])
def test_every_form_tells_what_came_of_a_remedy(tmp_path: Path, ending: str) -> None:
    report = small()
    text = report.save(tmp_path / f"report.{ending}").read_text(encoding="utf-8")
    assert "Tried on a copy" in text or '"verdict": "verified"' in text
    assert "the accuracy rises to 0.97 instead of 0.11" in text
    assert "tried on a copy: verified: the accuracy rises to 0.97" in " ".join(str(report).split())


def test_the_first_screen_says_what_to_try() -> None:
    finding = small().findings[0]
    head = as_page(small()).partition("</header>")[0]
    assert "almost certainly wrong" in head
    helped = [one for one in finding.verifications if one.verified]
    assert f"Try first:</b> {escape(helped[0].remedy.says)} (verified on a copy)" in head
    assert words.first_remedy(replace(finding, verifications=[])) == finding.remedies[0].says
    assert words.first_remedy(Finding("x")) == ""
