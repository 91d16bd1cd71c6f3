"""What a check says: findings, the remedies they carry, and one result for every check that was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from nbdebug.charts import Exhibit, exhibit_from_dict
from nbdebug.core.remedy import Patch, Remedy, in_code
from nbdebug.core.renamed import current_id
from nbdebug.core.serialization import plain
from nbdebug.core.verification import Verification

if TYPE_CHECKING:
    from nbdebug.core.control import Control
    from nbdebug.core.journal import Event
    from nbdebug.engine.session import Session

__all__ = [
    "SEVERITIES",
    "Finding",
    "LeftOut",
    "Patch",
    "Place",
    "Remedy",
    "Result",
    "Severity",
    "Status",
    "Verification",
    "in_code",
    "plain",
]

Severity = Literal["bug", "suspect", "note"]
Status = Literal["clean", "found", "skipped", "crashed"]
LeftOut = Literal[
    "", "quick", "stopped", "time", "memory", "user"
]  # why a check that applies was skipped; empty: it does not apply
SEVERITIES: tuple[Severity, ...] = ("bug", "suspect", "note")


@dataclass(frozen=True)
class Place:
    """The line of the user's code that made a part of the model: a file from the working folder, or a cell."""

    file: str
    line: int
    text: str = ""
    in_notebook: bool = False
    cell: int | None = None  # the number of the cell, where it is known

    def __str__(self) -> str:
        """Return it as a traceback would."""
        return f"{self.file}, line {self.line}"

    def to_dict(self) -> dict[str, Any]:
        """Return the parts that can be written down."""
        known = {"file": plain(self.file), "line": self.line, "text": plain(self.text)}
        return {**known, "in_notebook": self.in_notebook, "cell": self.cell}


@dataclass(frozen=True)
class Finding:
    """One problem that a check found, with its place, its numbers, the fixes, and the outcome of tried fixes.

    `quotes` are pieces of its texts that are values of the user's data, such as a message that quotes what could not be
    read; they are left out of saved reports unless samples are asked for.

    `step` is the training step that it is about, and `outcome` how a training came out, where there is one. Where it
    alone was fixed on a copy, `told_apart` says what was seen, and the alarms that went away with it are kept as well.

    `is_contradiction` says that it stands by itself, whatever the training does, although its check judges statistics.

    A finding of a report that was just made knows the session that found it, so that its remedies can be tried; one
    that was read from a file does not.
    """

    says: str
    where: str = ""
    severity: Severity = "bug"
    evidence: Mapping[str, Any] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()
    explains: tuple[str, ...] = ()
    exhibit: Exhibit | None = field(
        default=None, repr=False
    )  # it may hold samples, and a notebook keeps what it prints
    check: str = ""
    quotes: tuple[str, ...] = field(default=(), repr=False)
    verifications: list[Verification] = field(default_factory=list, compare=False, repr=False)
    session: Session | None = field(default=None, compare=False, repr=False)
    step: int | None = None
    outcome: str = ""
    told_apart: str = ""
    cures: tuple[str, ...] | None = None
    is_contradiction: bool = False

    def __post_init__(self) -> None:
        """Refuse a severity that has no rank."""
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity {self.severity!r} is none of {', '.join(SEVERITIES)}")

    def __str__(self) -> str:
        """Return the one line that a terminal shows."""
        place = f" [{self.where}]" if self.where else ""
        return f"{self.severity}: {self.check}{place}: {self.says}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the line in a notebook as a saved report would: a notebook is sent to others with what it shows."""
        from nbdebug.report.prepare import ready

        printer.text(str(ready(self)))

    @property
    def is_alarm(self) -> bool:
        """Whether this finding claims that something is wrong; a note never does."""
        return self.severity != "note"

    def verify(
        self,
        remedy: int | None = None,
        *,
        control: Control | None = None,
        time_limit: float | None = None,
        progress: bool | Callable[[Event], None] = True,
    ) -> Verification:
        """Try a remedy on a copy: run the check again and train for a short while, patched against as it is.

        Without a number the remedies are tried in their order until one verifies. What comes of it is kept in
        `verifications`, so that reports tell it. Nothing is applied to your own objects. `progress` may be a function
        that hears the events.
        """
        from nbdebug.fixes.verification import verify_finding

        return verify_finding(self, remedy, control=control, time_limit=time_limit, progress=progress)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the session behind when the finding is pickled or copied: it holds the user's own things."""
        return {**self.__dict__, "session": None}

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {
            "check": self.check,
            "severity": self.severity,
            "says": plain(self.says),
            "where": plain(self.where),
            "evidence": plain(self.evidence),
            "remedies": [remedy.to_dict() for remedy in self.remedies],
            "explains": list(self.explains),
            "exhibit": self.exhibit.to_dict() if self.exhibit is not None else None,
            "quotes": [plain(quote) for quote in self.quotes],
            "verifications": [verification.to_dict() for verification in self.verifications],
            "step": self.step,
            "outcome": self.outcome,
            "told_apart": plain(self.told_apart),
            "cures": None if self.cures is None else list(self.cures),
            "is_contradiction": self.is_contradiction,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """Read back what `to_dict` wrote."""
        return cls(
            says=data["says"],
            where=data["where"],
            severity=data["severity"],
            evidence=dict(data["evidence"]),
            remedies=tuple(Remedy.from_dict(item) for item in data["remedies"]),
            explains=tuple(map(current_id, data["explains"])),
            exhibit=exhibit_from_dict(data["exhibit"]) if data["exhibit"] else None,
            check=current_id(data["check"]),
            quotes=tuple(data.get("quotes", ())),
            verifications=[Verification.from_dict(item) for item in data.get("verifications", ())],
            step=data.get("step"),
            outcome=data.get("outcome", ""),
            told_apart=data.get("told_apart", ""),
            cures=None if data.get("cures") is None else tuple(data["cures"]),
            is_contradiction=data.get("is_contradiction", False),
        )


@dataclass(frozen=True)
class Result:
    """What became of one check: `clean`, `found`, `skipped` with the reason, or `crashed` with the error."""

    check: str
    status: Status
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    seconds: float = 0.0
    left_out: LeftOut = ""

    def __str__(self) -> str:
        """Return the status with the reason behind it."""
        return f"{self.check}: {self.status}" + (f" ({self.reason})" if self.reason else "")

    @property
    def was_stopped(self) -> bool:
        """Whether the run was stopped before this check had its turn."""
        return self.left_out == "stopped"

    @property
    def is_undone(self) -> bool:
        """Whether the check did not run to its end, which says nothing about whether it applies."""
        return bool(self.left_out)

    def with_findings(self, findings: tuple[Finding, ...]) -> Result:
        """Return the same result with its findings exchanged."""
        return replace(self, findings=findings)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {
            "check": self.check,
            "status": self.status,
            "reason": plain(self.reason),
            "seconds": round(self.seconds, 6),
            "left_out": self.left_out,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read back what `to_dict` wrote."""
        return cls(
            check=current_id(data["check"]),
            status=data["status"],
            reason=data["reason"],
            seconds=data["seconds"],
            left_out=data.get("left_out", ""),
            findings=tuple(Finding.from_dict(item) for item in data["findings"]),
        )
