"""What came of a remedy that was tried on a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nbdebug.charts import Exhibit, exhibit_from_dict
from nbdebug.core.remedy import Remedy
from nbdebug.core.serialization import plain

__all__ = ["Contest", "Verdict", "Verification"]

Verdict = Literal["verified", "did not help", "not tried"]


@dataclass(frozen=True)
class Contest:
    """One short training of the copy as it is against one of the patched copy, from the same seed.

    `before` and `after` are what both came to by `measure`; `clean` is whether the check, run again on the patched
    copy with this seed, no longer raises the finding.
    """

    seed: int
    measure: str
    before: float
    after: float
    better: bool
    clean: bool

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Contest:
        """Read back what `to_dict` wrote."""
        numbers = {name: float(data[name]) for name in ("before", "after")}
        return cls(data["seed"], data["measure"], **numbers, better=data["better"], clean=data["clean"])


@dataclass(frozen=True, repr=False)
class Verification:
    """A remedy that was tried on a copy: the verdict, the sentence with its numbers, and both curves.

    `verdict` is `verified` (better in every contest, by more than the noise, and the check finds it no more),
    `did not help`, or `not tried` with the reason in `says`.
    """

    remedy: Remedy
    verdict: Verdict
    says: str
    contests: tuple[Contest, ...] = ()
    exhibit: Exhibit | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        """Return the verdict with its numbers."""
        return f"{self.verdict}: {self.says}"

    def __repr__(self) -> str:
        """Return the same within a list, which `report.verify()` returns: the curves would fill the screen."""
        return f"<{self}>"

    @property
    def verified(self) -> bool:
        """Whether the remedy helped, in every contest."""
        return self.verdict == "verified"

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {
            "remedy": self.remedy.to_dict(),
            "verdict": self.verdict,
            "says": plain(self.says),
            "contests": [contest.to_dict() for contest in self.contests],
            "exhibit": self.exhibit.to_dict() if self.exhibit is not None else None,
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Verification:
        """Read back what `to_dict` wrote."""
        return cls(
            remedy=Remedy.from_dict(data["remedy"]),
            verdict=data["verdict"],
            says=data["says"],
            contests=tuple(Contest.from_dict(item) for item in data["contests"]),
            exhibit=exhibit_from_dict(data["exhibit"]) if data["exhibit"] else None,
            seconds=data["seconds"],
        )
