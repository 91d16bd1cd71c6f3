"""What came of the runs of the fault benchmark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Outcome", "from_json", "read"]


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    group: str
    fault: str
    host: str
    seed: int
    accepted: tuple[str, ...] = ()
    places: tuple[str, ...] | None = None
    findings: tuple[tuple[str, str, str, str], ...] = ()  # check, severity, where, says; the most likely cause first
    crashed: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""
    remedies: tuple[tuple[str, str, str], ...] = ()  # patch, verdict and what it says, of those that were tried

    @property
    def verified(self) -> bool | None:
        """Whether a remedy of the finding that names the root cause verifies; None where none can be tried."""
        return any(verdict == "verified" for _, verdict, _ in self.remedies) if self.remedies else None

    @property
    def name(self) -> str:
        """The fault and where it was put."""
        return f"{self.fault}@{self.host}" if self.fault else self.host

    @property
    def alarms(self) -> list[tuple[str, str, str, str]]:
        """The findings that claim that something is wrong."""
        return [finding for finding in self.findings if finding[1] != "note"]

    @property
    def detected(self) -> bool:
        """Whether a check that names the root cause raised an alarm."""
        return any(check in self.accepted for check, *_ in self.alarms)

    def within(self, rank: int) -> bool:
        """Whether the root cause is among the first so many findings."""
        return any(check in self.accepted for check, *_ in self.alarms[:rank])

    @property
    def placed(self) -> bool | None:
        """Whether the right place was named; None where there is none to name."""
        if self.places is None:
            return None
        named = [where for check, _, where, _ in self.alarms if check in self.accepted]
        return any(_meets(where, place) for where in named for place in self.places)


def _meets(where: str, place: str) -> bool:
    """Whether a module, or a parameter or part of it, is the one that was meant."""
    return where == place or where.startswith((f"{place}.", f"{place}["))


def from_json(line: str) -> Outcome:
    """Return the outcome that a line of JSON holds."""
    data = json.loads(line)
    places = tuple(data.pop("places")) if data["places"] is not None else data.pop("places")
    findings = tuple(tuple(finding) for finding in data.pop("findings"))
    remedies = tuple(tuple(remedy) for remedy in data.pop("remedies", ()))
    return Outcome(**data, places=places, findings=findings, remedies=remedies)


def read(paths: list[Path]) -> list[Outcome]:
    """Read outcomes back; a later line about the same run replaces an earlier one."""
    found: dict[tuple[Any, ...], Outcome] = {}
    for line in (line for path in paths for line in path.read_text().splitlines()):
        outcome = from_json(line)
        found[outcome.group, outcome.fault, outcome.host, outcome.seed] = outcome
    return list(found.values())
