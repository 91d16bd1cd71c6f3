"""What to try: a sentence, the code that the user would write, and perhaps a patch that can be tried on a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbdebug.core.serialization import plain

if TYPE_CHECKING:
    from nbdebug.setup import Setup

__all__ = ["Patch", "Remedy", "in_code"]


def in_code(path: str, root: str = "model") -> str:
    """Write the path of a module or a parameter as Python does: `encoder.0.weight` is `model.encoder[0].weight`."""
    parts = [part for part in path.split(".") if part] if path != "model" else []
    return root + "".join(
        f".{part}" if part.isidentifier() else f"[{part}]" if part.isdecimal() else f"[{part!r}]" for part in parts
    )


@dataclass(frozen=True)
class Patch:
    """The name of a change that nbdebug can make to a copy, with its settings; `nbdebug.fixes` holds the changes."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the parts that can be written down."""
        return {"name": self.name, "settings": plain(self.settings)}


@dataclass(frozen=True)
class Remedy:
    """Something to try: a sentence, the code that the user would write, and perhaps a way to try it on a copy.

    `diff` is the fix as a unified diff of the user's own code, where it is known which line of theirs it changes;
    `diff_ran` says whether the changed source was run on a copy, and the check raised the finding no more.
    """

    says: str
    code: str = ""
    patch: Patch | None = None
    diff: str = field(default="", compare=False)
    diff_ran: bool = field(default=False, compare=False)

    @property
    def verifiable(self) -> bool:
        """Whether nbdebug can try it on a copy."""
        return self.patch is not None

    def apply(self, setup: Setup) -> Setup:
        """Return a setup like this one whose every copy is patched; nothing of the user's is changed."""
        from nbdebug.fixes import patched

        return patched(setup, self)

    def to_dict(self) -> dict[str, Any]:
        """Return the parts that can be written down."""
        return {
            "says": plain(self.says),
            "code": plain(self.code),
            "verifiable": self.verifiable,
            "patch": self.patch.to_dict() if self.patch is not None else None,
            "diff": plain(self.diff),
            "diff_ran": self.diff_ran,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Remedy:
        """Read back what `to_dict` wrote; older files know no patches and no diffs."""
        patch = data.get("patch")
        known = Patch(patch["name"], dict(patch["settings"])) if patch else None
        return cls(data["says"], data["code"], known, str(data.get("diff", "")), bool(data.get("diff_ran", False)))
