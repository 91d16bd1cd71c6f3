"""Every piece of advice of the sources is served by something that exists."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import IMPROVEMENTS, TREE, find_question, symptoms

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from seed_items import NOT_YET, SOURCES, Item  # noqa: E402

ITEMS = [item for items in SOURCES.values() for item in items]
STEPS = {step.id for stage in TREE for step in stage.steps}


def exists(reference: str) -> bool:
    """Whether what serves an item is there, or is one of the functions that are still to come."""
    if reference.startswith("nbdebug."):
        name = reference.removeprefix("nbdebug.")
        return name in nbdebug.__all__ or name in NOT_YET
    kind, _, name = reference.partition(":")
    if kind == "check":
        return name in registry.load("nbdebug.checks").checks
    if kind == "remedy":
        check, _, word = name.partition(":")
        return bool(word) and word in registry.load("nbdebug.checks").checks[check].remedy
    if kind == "question":
        return bool(find_question(name))
    if kind == "symptom":
        return name in {symptom.id for symptom in symptoms()}
    return name in STEPS if kind == "step" else kind == "advice" and name.replace("+", " ") in IMPROVEMENTS


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item[0])
def test_an_item_is_served(item: Item) -> None:
    """By at least one thing, and all that it names is there."""
    number, says, served = item
    assert says and served.split()
    for reference in served.split():
        assert exists(reference), f"{number} ({says}) counts on {reference}, which is not there"


def test_what_is_still_to_come_is_not_there_yet() -> None:
    """The list may only become shorter: a function that exists is no longer to come, and none is listed in vain."""
    here = [name for name in NOT_YET if name in nbdebug.__all__]
    assert not here, f"take {', '.join(here)} out of NOT_YET in scripts/seed_items"
    named = {word for _, _, served in ITEMS for word in served.split()}
    assert all(f"nbdebug.{name}" in named for name in NOT_YET)


def test_no_item_is_missing() -> None:
    """The numbered list of 37 reasons is whole, and numbers are used once."""
    numbers = [number for number, _, _ in ITEMS]
    assert len(numbers) == len(set(numbers))
    reasons = {int(match[1]) for number in numbers if (match := re.fullmatch(r"R(\d+)[a-z]?", number))}
    assert reasons == set(range(1, 38))


def test_every_check_and_question_serves_somebody_or_is_our_own() -> None:
    """What no source asks for is allowed, but known: these were added because people meet them."""
    named = {
        word.partition(":")[2] for _, _, served in ITEMS for word in served.split() if word.startswith("question:")
    }
    from nbdebug.engine.decision_tree import questions

    assert {question.id for question in questions()} - named == set()
