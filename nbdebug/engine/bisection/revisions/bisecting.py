"""Bisect two revisions of a repository: exchange what differs between them, else walk the commits."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nbdebug.core.text import plural
from nbdebug.engine.bisection.result import Bisection
from nbdebug.engine.bisection.revisions.answer import RevisionBisection
from nbdebug.engine.bisection.revisions.child import Hear, Stopped, run
from nbdebug.engine.bisection.revisions.repository import Checkout, Repository, Revision
from nbdebug.engine.bisection.revisions.walking import Walk, walk
from nbdebug.errors import BadInput

__all__ = ["RevisionFails", "bisect_revisions"]

ENDS = 6  # trainings of a walk, before its first half is known
UNEXPLAINED = ("not explained", "nothing differs")  # by an exchange, so that the commits are walked


class RevisionFails(BadInput):
    """One of the two revisions makes no set-up in a fresh copy."""


def bisect_revisions(
    entry: str,
    good: str,
    bad: str,
    *,
    folder: Path | None = None,
    metric: str = "",
    steps: int | None = None,
    time_limit: float | None = None,
    links: Sequence[str] = (),
    walks: bool = False,
    hear: Hear = lambda fraction, text: None,
) -> RevisionBisection:
    """Find what broke a training between two revisions of the repository in `folder`.

    Both are written into temporary folders and made in processes of their own. Then they are imported side by side in
    one process and exchanged. Where that cannot be done or does not explain it, or where `walks` asks for it, the
    commits between them are walked.
    """
    repository = Repository(folder or Path())
    found = RevisionBisection(repository.revision(good), repository.revision(bad))
    job = {"entry": entry, "metric": metric, "steps": steps, "root": str(repository.root)}
    one = _Run(
        repository, found, job, list(links), hear, math.inf if time_limit is None else time.monotonic() + time_limit
    )
    begun = time.monotonic()
    try:
        one.all(walks=walks)
    except Stopped as stop:
        one.keep(stop.answer)
        found.stopped = str(stop)
    except KeyboardInterrupt:
        found.stopped = "interrupted"
    found.seconds = round(time.monotonic() - begun, 2)
    return found


class _Run:
    """One bisection; what is known is in `found` at any moment."""

    def __init__(
        self,
        repository: Repository,
        found: RevisionBisection,
        job: dict[str, Any],
        links: list[str],
        hear: Hear,
        end: float,
    ) -> None:
        self.repository, self.found, self.job, self.links, self.hear, self.end = (
            repository,
            found,
            job,
            links,
            hear,
            end,
        )
        self.took: list[float] = []  # seconds of each revision that was walked

    def all(self, *, walks: bool) -> None:
        """Exchange, and walk where that is not possible or not enough."""
        with ExitStack() as stack:
            sides = {
                side: stack.enter_context(self.repository.checked_out(revision, self.links))
                for side, revision in (("good", self.found.good), ("bad", self.found.bad))
            }
            for side, checkout in sides.items():
                self._make(side, checkout)
            if not walks and not self._exchange(sides):
                return
        self.found.walk = Walk()
        walk(self.repository, self.found.good, self.found.bad, self._measure, self.job["steps"], self.found.walk)

    def _make(self, side: str, checkout: Checkout) -> None:
        """Make a revision by itself; what is wrong with it is said of the revision."""
        self.hear(0.0, f"making {side}, {checkout.revision.short}")
        about = f"{side}, revision {checkout.revision}"
        try:
            answer = run({**self.job, "do": "make", "side": side, "at": _place(checkout)}, self.hear, end=self.end)
        except BadInput as error:
            raise self._broken(about, error.seen) from error
        if answer["status"] == "failed":
            raise self._broken(about, answer["message"])

    def _broken(self, about: str, seen: str) -> RevisionFails:
        hint = "; a file that is not committed is there with --link PATH" if "FileNotFoundError" in seen else ""
        return RevisionFails(
            seen,
            where=about,
            expected=f"that {self.job['entry']} makes a set-up in a fresh copy of this revision",
            do=f"name revisions in which it does{hint}",
        )

    def _exchange(self, sides: Mapping[str, Checkout]) -> bool:
        """Exchange what differs; return whether the commits should be walked all the same."""
        self.hear(0.0, "importing both side by side")
        trees = {side: _place(checkout) for side, checkout in sides.items()}
        try:
            answer = run({**self.job, "do": "exchange", "trees": trees}, self.hear, end=self.end)
        except BadInput as error:
            answer = {"status": "failed", "message": f"{error.where}: {error.seen}"}
        if answer["status"] == "failed":
            self.found.notes.append(f"The two could not be exchanged ({answer['message']}).")
            return True
        self.keep(answer)
        result = self.found.exchange
        assert result is not None
        if result.stopped:
            self.found.stopped = result.stopped
            return False
        return result.outcome in UNEXPLAINED

    def keep(self, answer: Mapping[str, Any]) -> None:
        """Keep a bisection that a child has returned."""
        if "bisection" in answer:
            self.found.exchange = Bisection.from_dict(answer["bisection"])

    def _measure(self, revision: Revision, more: Mapping[str, Any]) -> dict[str, Any]:
        """Train one revision by itself; what it cannot do is a result."""
        assert self.found.walk is not None
        left = len(self.found.walk.suspects)
        rounds = math.ceil(math.log2(left)) if left else ENDS
        fraction = len(self.took) / (len(self.took) + rounds)
        seconds = sum(self.took) / len(self.took) * rounds if self.took else math.nan
        time_left = f", about {seconds:.0f} s left" if left and self.took else ""
        name = f"{revision.short}, {plural(left, 'commit')} left{time_left}" if left else revision.short
        begun = time.monotonic()
        with self.repository.checked_out(revision, self.links) as checkout:
            job = {**self.job, "do": "measure", "side": "good", "at": _place(checkout), **more, "name": name}
            try:
                answer = run(job, lambda _, text: self.hear(fraction, text), end=self.end)
            except BadInput as error:
                answer = {"status": "failed", "message": error.seen}
        self.took.append(time.monotonic() - begun)
        if answer["status"] == "failed":
            nothing = {"learns": False, "agree": True, "value": None, "skill": -1.0, "measure": "", "ends": None}
            return {**nothing, "failure": answer["message"], "program": "", "training_steps": 0}
        return answer


def _place(checkout: Checkout) -> dict[str, str]:
    return {"tree": str(checkout.tree), "folder": str(checkout.folder), "name": checkout.revision.short}
