"""What the user holds of a training that was recorded: its curves, its findings, and the ways to keep it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.errors import plainly
from nbdebug.evidence.recording import Recording
from nbdebug.finding import Finding

if TYPE_CHECKING:
    import pandas as pd

    from nbdebug.report import Report

__all__ = ["Run"]


class Run:
    """A recorded run: its curves, its findings, and the ways to keep it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._judged: tuple[int, Report] | None = None

    def recording(self) -> Recording:
        """Give everything that was recorded so far, as plain numbers that no longer change."""
        return self._recording

    def report(self, thresholds: Mapping[str, Mapping[str, Any]] | None = None) -> Report:
        """Judge what was recorded by every check that reads recordings."""
        from nbdebug.watch.judging import judged

        return judged(self.recording(), thresholds)

    @property
    def findings(self) -> list[Finding]:
        """What the checks say about the run so far, the likeliest cause first; judged again when steps were added."""
        recording = self.recording()
        if self._judged is None or self._judged[0] != recording.steps:
            from nbdebug.watch.judging import judged

            self._judged = (recording.steps, judged(recording))
        return self._judged[1].findings

    def to_frame(self) -> pd.DataFrame:
        """Give every curve in rows: kind, name, statistic, step, value, low, high, count."""
        from nbdebug.watch.saving import as_frame

        return as_frame(self.recording())

    @plainly
    def save(self, path: str | Path) -> Path:
        """Write the run to an .npz file; `nbdebug.watch.load(path)` opens it again."""
        from nbdebug.watch.saving import save

        return save(self.recording(), Path(path))

    @staticmethod
    @plainly
    def load(path: str | Path) -> Run:
        """Open a run that was saved; the file holds plain data, so that reading it runs nothing."""
        from nbdebug.watch.saving import load

        return Run(load(Path(path)))

    def to_tensorboard(self, folder: str | Path) -> Path:
        """Write the curves as event files of TensorBoard, which has to be installed."""
        from nbdebug.watch.saving import to_tensorboard

        return to_tensorboard(self.recording(), Path(folder))

    def __repr__(self) -> str:
        """Give the run in a few lines."""
        from nbdebug.watch.showing import as_text

        return as_text(self.recording(), self._judged[1].findings if self._judged else [])

    def _ipython_display_(self) -> None:
        """Show the curves, live in a notebook and as text in a terminal."""
        from nbdebug.show.live import show_live

        show_live(self)._ipython_display_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from nbdebug.watch.showing import as_html

        found = self._judged[1].findings if self._judged else []
        return {"text/plain": repr(self), "text/html": as_html(self.recording(), found)}
