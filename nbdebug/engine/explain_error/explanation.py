"""The answer of `explain_error`, as text and as a part of a notebook."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import Any

from nbdebug.core.finding import Finding, Remedy, plain

__all__ = ["ErrorExplanation"]

_STYLE = (
    "border-left: 4px solid var(--jp-error-color1, #d55e00); padding: 6px 12px; max-width: 60em; "
    "background: var(--jp-layout-color1, #fff); color: var(--jp-ui-font-color1, #222)"
)


@dataclass(frozen=True)
class ErrorExplanation:
    """What an error means here: the place, what met there, what would fit, and the code to write.

    `kind` is shape, dtype, device, label, embedding, index, in-place, nan, no-grad, second-backward and so on, or empty
    where the error is not one of torch's own kinds.
    """

    kind: str
    error: str
    finding: Finding

    @property
    def says(self) -> str:
        """The whole in a few sentences."""
        return self.finding.says

    @property
    def where(self) -> str:
        """The dotted path of the module, or the name of the loss or of the model."""
        return self.finding.where

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What to try, in order."""
        return self.finding.remedies

    def to_dict(self) -> dict[str, Any]:
        """Return everything that can be written down."""
        return {"kind": self.kind, "error": plain(self.error), **self.finding.to_dict()}

    def __str__(self) -> str:
        """Return the text for a terminal."""
        lines = [textwrap.fill(self.says, 100, break_long_words=False, break_on_hyphens=False)]
        for remedy in self.remedies:
            lines.append(textwrap.fill(f"try: {remedy.says}", 100, subsequent_indent="     ", break_on_hyphens=False))
            lines += [f"     {line}" for line in remedy.code.splitlines()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tried = "".join(
            f"<li>{escape(remedy.says)}{f'<pre>{escape(remedy.code)}</pre>' if remedy.code else ''}</li>"
            for remedy in self.remedies
        )
        place = f" <code>{escape(self.where)}</code>" if self.where else ""
        return (
            f'<div class="nbdebug-error" style="{_STYLE}"><b>{escape(self.kind or "error")}</b>{place}'
            f"<p>{escape(self.says)}</p>{f'<b>What to try</b><ol>{tried}</ol>' if tried else ''}</div>"
        )
