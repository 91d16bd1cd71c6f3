"""What the user holds of a training that was recorded: its curves, its findings, and the ways to keep it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.core.finding import Finding
from nbdebug.errors import BadInput, plainly
from nbdebug.evidence.recording import Recording

if TYPE_CHECKING:
    import pandas as pd

    from nbdebug.report import Report

__all__ = ["Run"]


class Run:
    """A recorded run: its curves, its findings, and the ways to keep it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._judged: tuple[int, Report] | None = None
        self.first_seen: dict[str, int] = {}  # by check: the newest step when it first alarmed in a run that went on
        self.view: Any = None  # its curves, once they are shown

    def recording(self, *, layers: bool = True) -> Recording:
        """Return everything that was recorded so far, as plain numbers that no longer change.

        `layers=False` may leave out layers and parameters, which is quicker while a training runs.
        """
        return self._recording

    def report(self, thresholds: Mapping[str, Mapping[str, Any]] | None = None) -> Report:
        """Judge what was recorded by every check that reads recordings."""
        from nbdebug.watch.judging import judged

        return judged(self.recording(), thresholds) if thresholds else self._judge(self.recording())

    @property
    def is_running(self) -> bool:
        """Whether it records now."""
        return False

    @property
    def findings(self) -> list[Finding]:
        """What the checks say about the run so far, the most likely cause first; judged again when steps were added."""
        recording = self.recording()
        if self._judged is None or self._judged[0] != recording.steps:
            return self._judge(recording).findings
        return self._judged[1].findings

    def appeared(self, finding: Finding) -> int | None:
        """Return the step at which a finding appeared: the one it names itself, or when it was first seen.

        None if the run was not checked while it was recorded.
        """
        steps = self._judged[0] if self._judged is not None else 0
        if finding.step is not None and 0 <= finding.step < steps:
            return finding.step
        return self.first_seen.get(finding.check)

    def _judge(self, recording: Recording) -> Report:
        from nbdebug.watch.judging import judged

        report = judged(recording)
        self._judged = (recording.steps, report)
        if self.is_running:
            for finding in report.findings:
                self.first_seen.setdefault(finding.check, max(recording.steps - 1, 0))
        return report

    def to_frame(self) -> pd.DataFrame:
        """Return every curve in rows: kind, name, statistic, step, value, low, high, count."""
        from nbdebug.watch.saving import as_frame

        return as_frame(self.recording())

    @plainly
    def save(self, path: str | Path) -> Path:
        """Write the run to an .npz file; `nbdebug.watch.load(path)` opens it again."""
        from nbdebug.watch.saving import save

        return save(self.recording(), _as_path(path, "live.save"))

    @staticmethod
    @plainly
    def load(path: str | Path) -> Run:
        """Open a run that was saved; the file holds plain data, so that reading it runs nothing."""
        from nbdebug.watch.reading import load

        return Run(load(_as_path(path, "nbdebug.watch.load")))

    @plainly
    def to_tensorboard(self, folder: str | Path) -> Path:
        """Write the curves as event files of TensorBoard, which has to be installed."""
        from nbdebug.watch.saving import to_tensorboard

        return to_tensorboard(self.recording(), _as_path(folder, "live.to_tensorboard", "runs/first"))

    def __repr__(self) -> str:
        """Return the run in a few lines."""
        from nbdebug.watch.showing import as_text

        return as_text(self.recording(), self._judged[1].findings if self._judged else [])

    def _ipython_display_(self) -> None:
        """Show the curves, live in a notebook and as text in a terminal."""
        from nbdebug.views.live import view_of

        view_of(self)._ipython_display_()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from nbdebug.watch.showing import as_html

        found = self._judged[1].findings if self._judged else []
        return {"text/plain": repr(self), "text/html": as_html(self.recording(), found)}


def _as_path(path: Any, where: str, example: str = "run.npz") -> Path:
    try:
        return Path(path)
    except TypeError:
        raise BadInput(
            f"the path is {type(path).__name__}", where=where, expected="a path, as text", do=f'{where}("{example}")'
        ) from None
