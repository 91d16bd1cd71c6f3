"""What a check says: findings, the remedies they carry, and one result for every check that was asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from nbdebug.exhibit import Exhibit, exhibit_from_dict

__all__ = ["SEVERITIES", "Finding", "Place", "Remedy", "Result", "Severity", "Status", "plain"]

Severity = Literal["bug", "suspect", "note"]
Status = Literal["clean", "found", "skipped", "crashed"]
SEVERITIES: tuple[Severity, ...] = ("bug", "suspect", "note")


def plain(value: Any) -> Any:
    """Turn numbers, arrays and containers into what JSON can hold; non-finite numbers become their names."""
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate would crash every writer
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    for convert in ("item", "tolist"):  # numpy scalars, then arrays
        if hasattr(value, convert) and (convert == "tolist" or getattr(value, "size", 0) == 1):
            return plain(getattr(value, convert)())
    return plain(str(value))


@dataclass(frozen=True)
class Remedy:
    """Something to try: a sentence, the code that the user would write, and perhaps a way to try it on a copy."""

    says: str
    code: str = ""
    apply: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Give the parts that can be written down."""
        return {"says": plain(self.says), "code": plain(self.code), "verifiable": self.apply is not None}


@dataclass(frozen=True)
class Place:
    """The line of the user's code that made a part of the model: a file from the working folder, or a cell."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        """Give it as a traceback would."""
        return f"{self.file}, line {self.line}"

    def to_dict(self) -> dict[str, Any]:
        """Give the parts that can be written down."""
        return {"file": plain(self.file), "line": self.line, "text": plain(self.text)}


@dataclass(frozen=True)
class Finding:
    """One illness that a check found, with its place, its numbers and what to try."""

    says: str
    where: str = ""
    severity: Severity = "bug"
    evidence: Mapping[str, Any] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()
    explains: tuple[str, ...] = ()
    exhibit: Exhibit | None = None
    check: str = ""

    def __post_init__(self) -> None:
        """Refuse a severity that nobody would know how to rank."""
        if self.severity not in SEVERITIES:
            raise ValueError(f"severity {self.severity!r} is none of {', '.join(SEVERITIES)}")

    def __str__(self) -> str:
        """Give the one line that a terminal shows."""
        place = f" [{self.where}]" if self.where else ""
        return f"{self.severity}: {self.check}{place}: {self.says}"

    @property
    def is_alarm(self) -> bool:
        """Whether this finding claims that something is wrong; a note never does."""
        return self.severity != "note"

    def to_dict(self) -> dict[str, Any]:
        """Give everything that can be written down."""
        return {
            "check": self.check,
            "severity": self.severity,
            "says": plain(self.says),
            "where": plain(self.where),
            "evidence": plain(self.evidence),
            "remedies": [remedy.to_dict() for remedy in self.remedies],
            "explains": list(self.explains),
            "exhibit": self.exhibit.to_dict() if self.exhibit is not None else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Finding:
        """Read back what `to_dict` wrote."""
        return cls(
            says=data["says"],
            where=data["where"],
            severity=data["severity"],
            evidence=dict(data["evidence"]),
            remedies=tuple(Remedy(item["says"], item["code"]) for item in data["remedies"]),
            explains=tuple(data["explains"]),
            exhibit=exhibit_from_dict(data["exhibit"]) if data["exhibit"] else None,
            check=data["check"],
        )


@dataclass(frozen=True)
class Result:
    """What became of one check: `clean`, `found`, `skipped` with the reason, or `crashed` with the error."""

    check: str
    status: Status
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """Give the status with the reason behind it."""
        return f"{self.check}: {self.status}" + (f" ({self.reason})" if self.reason else "")

    def with_findings(self, findings: tuple[Finding, ...]) -> Result:
        """Give the same result with its findings exchanged."""
        return replace(self, findings=findings)

    def to_dict(self) -> dict[str, Any]:
        """Give everything that can be written down."""
        return {
            "check": self.check,
            "status": self.status,
            "reason": plain(self.reason),
            "seconds": round(self.seconds, 6),
            "findings": [finding.to_dict() for finding in self.findings],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read back what `to_dict` wrote."""
        return cls(
            check=data["check"],
            status=data["status"],
            reason=data["reason"],
            seconds=data["seconds"],
            findings=tuple(Finding.from_dict(item) for item in data["findings"]),
        )
