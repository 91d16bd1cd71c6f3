"""Read a Git repository: its revisions, the commits between two, and their files in a temporary folder.

Nothing of the user's repository is written: a revision is read through an index of its own and written below a prefix,
so that neither the work tree nor HEAD, the index, hooks or the list of work trees are involved.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbdebug.errors import BadInput

__all__ = ["Checkout", "Repository", "Revision"]

SHORT = 10  # characters of a hash that are shown
MOST_DIFF = 20_000  # characters of the diff of a commit


@dataclass(frozen=True)
class Revision:
    """One commit."""

    hash: str
    subject: str
    date: str

    @property
    def short(self) -> str:
        """Return the hash as it is shown."""
        return self.hash[:SHORT]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data."""
        return dict(vars(self))

    def __str__(self) -> str:
        """Return the hash with the subject."""
        return f"{self.short} ({self.subject})"


@dataclass(frozen=True)
class Checkout:
    """The files of a revision: the folder that they are in, and the one to import from and to run in."""

    revision: Revision
    tree: Path
    folder: Path


class Repository:
    """The repository that a folder belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        try:
            self.root = Path(self._git("rev-parse", "--show-toplevel", at=self.folder).strip()).resolve()
        except FileNotFoundError as error:
            raise BadInput("there is no program git", where="bisect", expected="Git", do="install Git") from error
        except subprocess.CalledProcessError as error:
            raise BadInput(
                f"{self.folder.name} is in no work tree of Git",
                where="bisect",
                expected="a folder of a Git repository",
                do="call it in the repository, or name two functions: good_module:make bad_module:make",
            ) from error

    def revision(self, given: str) -> Revision:
        """Return the commit that a hash, a branch, a tag or an expression such as HEAD~3 names."""
        try:
            found = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{given}^{{commit}}").strip()
        except subprocess.CalledProcessError as error:
            raise BadInput(
                f"there is no commit {given!r}",
                where=self.root.name,
                expected="a commit, a branch, a tag or an expression such as HEAD~3",
                do="look it up with git log",
            ) from error
        subject, date = self._git("show", "--no-patch", "--format=%s%x00%cI", found).strip().split("\0")
        return Revision(found, subject, date)

    def is_ancestor(self, good: Revision, bad: Revision) -> bool:
        """Whether `bad` was developed from `good`."""
        return self._git("merge-base", "--all", good.hash, bad.hash, check=False).strip() == good.hash

    def halving(self, bad: Revision, goods: Sequence[Revision]) -> list[str]:
        """Return the commits that `bad` has and none of the good ones, those that halve them best first."""
        listed = self._git("rev-list", "--bisect-all", bad.hash, *(f"^{good.hash}" for good in goods))
        return [line.split()[0] for line in listed.splitlines()]

    def between(self, bad: Revision, goods: Sequence[Revision]) -> list[str]:
        """Return the same commits, each before its parents."""
        return self._git("rev-list", "--topo-order", bad.hash, *(f"^{good.hash}" for good in goods)).split()

    def diff(self, revision: Revision) -> str:
        """Return the diff of one commit."""
        text = self._git("show", "--format=", "--no-color", "--no-ext-diff", "--no-textconv", revision.hash).strip()
        return text if len(text) <= MOST_DIFF else f"{text[:MOST_DIFF]}\n… ({len(text) - MOST_DIFF:,} more characters)"

    @contextmanager
    def checked_out(self, revision: Revision, links: Sequence[str] = ()) -> Iterator[Checkout]:
        """Write the files of a revision into a temporary folder, which is removed at the end.

        `links` are paths that no revision holds, such as data: they lead to those of the user.
        """
        with TemporaryDirectory(prefix="nbdebug-", ignore_cleanup_errors=True) as name:
            base = Path(name).resolve()
            tree, index = base / "tree", {"GIT_INDEX_FILE": str(base / "index")}
            tree.mkdir()
            self._git("read-tree", revision.hash, env=index)
            self._git("checkout-index", "--all", "--quiet", f"--prefix={tree}/", env=index)
            for link in links:
                self._link(tree, link)
            folder = tree / self.folder.relative_to(self.root)
            if not folder.is_dir():
                raise BadInput(
                    f"it has no folder {self.folder.relative_to(self.root)}",
                    where=f"revision {revision}",
                    expected="a revision that has the folder in which this was called",
                    do="call it in a folder that both revisions have",
                )
            yield Checkout(revision, tree, folder)

    def _link(self, tree: Path, given: str) -> None:
        source = Path(os.path.normpath(self.folder / given))
        if not source.exists() or not source.is_relative_to(self.root) or source == self.root:
            raise BadInput(
                "there is no such file or folder in the repository",
                where=f"--link {given}",
                expected="a path of the work tree that is not committed, such as data",
                do="check the path",
            )
        target = tree / source.relative_to(self.root)
        if target.is_dir() and not any(target.iterdir()):  # such as a submodule, which is no part of a revision
            target.rmdir()
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(source)

    def _git(
        self, *arguments: str, at: Path | None = None, env: dict[str, str] | None = None, check: bool = True
    ) -> str:
        quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "LC_ALL": "C"}
        command = ["git", "-c", "core.sparseCheckout=false", "-c", "advice.detachedHead=false", *arguments]
        done = subprocess.run(
            command,
            cwd=at or self.root,
            env={**os.environ, **quiet, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=check,
        )
        return done.stdout
