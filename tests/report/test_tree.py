"""The tree that is drawn holds all of the tree, and how each part stands."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import questions, symptoms, whole_tree
from nbdebug.engine.decision_tree.states import ICONS
from tests import loops
from tests.zoo.tabular import digits


@pytest.fixture(scope="module")
def report() -> nbdebug.Report:
    """Some checks on a model with a softmax too many."""
    torch.manual_seed(0)
    checks = [
        "forward-fails",
        "softmax-before-cross-entropy",
        "split-leakage",
        "split-shift",
        "split-treated-differently",
    ]
    given: dict[str, Any] = {"model": loops.mlp(nn.Softmax(dim=1)), "loader": digits(), "progress": False}
    return nbdebug.diagnose(**given, loss_fn=nn.CrossEntropyLoss(), checks=checks, symptom="loss does not fall")


class Reader(HTMLParser):
    """Keeps the tags that are open, the tags seen and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("form", ["text", "html"])
def test_it_holds_everything(form: str) -> None:
    """Every symptom, step, check and question can be read in both forms."""
    drawn = nbdebug.tree()
    reader = Reader(drawn._repr_html_())
    text = str(drawn) if form == "text" else " ".join(reader.words)
    shown = re.sub(r"[\s│]+", " ", text)
    assert not reader.open and not reader.tags & {"script", "iframe", "img", "link"}
    for stage in whole_tree(registry):
        assert stage.title in shown
        for step in stage.steps:
            assert step.label in shown and step.question in shown
            assert all(check in shown for check in step.checks)
            assert all(f"nbdebug.{name}" in shown for name in step.instruments)
    assert all(symptom.words in shown for symptom in symptoms())
    assert all(question.words in shown for question in questions())


def test_it_shows_how_a_report_stands(report: nbdebug.Report) -> None:
    """Clean, found, skipped and not run are told apart, and the advice stands below."""
    text = str(nbdebug.tree(report))
    assert f"{ICONS['clean']} First pass (clean)" in text
    assert f"{ICONS['found']} Loss inputs [5] (1 found)" in text
    assert f"{ICONS['skipped']} Train/val split (skipped)" in text
    assert f"{ICONS['not-run']} Loading (not run)" in text
    assert "● The loss does not fall" in text
    assert "Next: " in text.splitlines()[-2] + text.splitlines()[-1]
    page = nbdebug.tree(report)._repr_html_()
    opened = re.findall(r"<details open>\s*<summary>.*?</summary>", page)
    assert len(opened) == 1 and "Loss inputs" in opened[0]


def test_a_symptom_numbers_its_steps() -> None:
    """The numbers run from one without a gap, and none are there without a symptom."""
    for symptom in symptoms():
        places = re.findall(r"[├└]─ .* \[(\d+)\]", str(nbdebug.tree(symptom=symptom.words)))
        assert sorted(map(int, places)) == list(range(1, len(places) + 1))
    assert "[1]" not in str(nbdebug.tree())


def test_a_check_of_the_user_s_is_drawn_and_is_no_markup() -> None:
    """Its name is text, whatever it holds."""
    result = nbdebug.Result("<b>mine</b>", "clean")
    spec = registry.load().checks["forward-fails"]
    registry.checks["<b>mine</b>"] = type(spec)("<b>mine</b>", spec.function, {}, {})
    try:
        page = nbdebug.tree(nbdebug.Report([], [result]))._repr_html_()
    finally:
        del registry.checks["<b>mine</b>"]
    assert "&lt;b&gt;mine" in page and "<b>mine" not in page and "Custom checks" in page


@pytest.mark.parametrize("wrong", [3, "report.html", {}])
def test_what_is_no_report_is_refused(wrong: Any) -> None:
    """With what would do."""
    with pytest.raises(nbdebug.BadInput, match="a report returned by nbdebug"):
        nbdebug.tree(wrong)
    with pytest.raises(nbdebug.BadInput, match="The loss is NaN"):
        nbdebug.tree(symptom="gloom")


def test_a_report_with_answers_from_elsewhere_is_drawn(report: nbdebug.Report) -> None:
    """A file may hold answers to questions that this version does not ask."""
    data = report.to_dict() | {"answers": {"unheard-of": "yes", "nan-when": "later"}, "symptom": ""}
    assert "Next: " in str(nbdebug.tree(nbdebug.Report.from_dict(data)))
