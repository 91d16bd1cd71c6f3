"""The outline that the page, the notebook and the summary share: findings as cards, and the other checks in groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from nbdebug.core.finding import Finding, Place, Result
from nbdebug.engine.decision_tree import TREE, Said, said
from nbdebug.engine.ranking import folded
from nbdebug.report.report import Report
from nbdebug.report.words import not_examined, not_tried

__all__ = ["About", "Card", "Outline", "about", "outline"]


@dataclass(frozen=True)
class About:
    """The documentation of a check; empty if the check is unknown."""

    title: str = ""
    why: str = ""
    remedy: str = ""
    question: str = ""


@dataclass(frozen=True)
class Card:
    """One finding with the documentation of its check and the symptoms that it explains."""

    number: int
    finding: Finding
    about: About
    symptoms: tuple[Card, ...] = ()
    place: Place | None = None

    @property
    def anchor(self) -> str:
        """A link target that contains only letters, digits and dashes."""
        return f"finding-{self.number}-{re.sub('[^a-z0-9-]+', '-', self.finding.check.lower())[:60]}"

    @property
    def headline(self) -> str:
        """What the problem is, in words that need no manual."""
        return self.about.title or _sentence(self.finding.check.replace("-", " "))

    @property
    def borrowed(self) -> Card | None:
        """The first finding that this one explains and that has a chart, where this one has none of its own."""
        if self.finding.exhibit is not None:
            return None
        return next((symptom for symptom in self.symptoms if symptom.finding.exhibit is not None), None)


@dataclass(frozen=True)
class Outline:
    """A report in reading order."""

    cause: Card | None
    others: tuple[Card, ...]
    notes: tuple[Card, ...]
    clean: tuple[tuple[Result, About], ...]
    skipped: tuple[tuple[Result, About], ...]
    crashed: tuple[tuple[Result, About], ...]
    said: tuple[Said, ...] = ()
    not_tried: tuple[str, ...] = ()  # how many checks were left out and why, in one line each

    @property
    def not_applicable(self) -> tuple[tuple[Result, About], ...]:
        """The checks that were skipped because they do not apply here."""
        return tuple(pair for pair in self.skipped if not pair[0].is_undone)

    @property
    def undone(self) -> tuple[tuple[Result, About], ...]:
        """The checks that were skipped for another reason: the run was stopped, or they were left out."""
        return tuple(pair for pair in self.skipped if pair[0].is_undone)

    @property
    def cards(self) -> Iterator[Card]:
        """Every card, symptoms after their cause."""
        for card in (*((self.cause,) if self.cause else ()), *self.others, *self.notes):
            yield card
            yield from card.symptoms


def outline(report: Report) -> Outline:
    """Sort a report for reading: most likely cause, other findings, clean checks, skipped checks and why."""
    cards = list(_cards(report))
    alarms = [card for card in cards if card.finding.is_alarm]
    of = {
        status: tuple((r, about(r.check)) for r in report.results if r.status == status)
        for status in ("clean", "skipped", "crashed")
    }
    return Outline(
        cause=alarms[0] if alarms else None,
        others=tuple(alarms[1:]),
        notes=tuple(card for card in cards if not card.finding.is_alarm),
        clean=of["clean"],
        skipped=of["skipped"],
        crashed=of["crashed"],
        said=said(report.symptom, report.answers),
        not_tried=(*not_tried(report), *not_examined(report)),
    )


def _cards(report: Report) -> Iterator[Card]:
    number = 0
    for cause, symptoms in folded(report.findings):
        number += 1
        under = [_card(number + i, symptom, report) for i, symptom in enumerate(symptoms, 1)]
        yield replace(_card(number, cause, report), symptoms=tuple(under))
        number += len(under)


def _card(number: int, finding: Finding, report: Report) -> Card:
    return Card(number, finding, about(finding.check), place=report.places.get(finding.where))


def about(check: str) -> About:
    """Read the documentation of a check; a report is written also where a check is unknown or cannot be imported."""
    from nbdebug.core.registry import registry

    try:
        registry.load("nbdebug.checks")
    except Exception:  # what could be imported is registered
        return About()
    spec = registry.checks.get(check)
    if spec is None:
        return About()
    return About(spec.title, _sentence(spec.why), _sentence(spec.remedy), _questions().get(check, ""))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


@cache
def _questions() -> dict[str, str]:
    return {check: step.question for stage in TREE for step in stage.steps for check in step.checks}
