"""The tool `bisect`: two entry points, or one entry point in two revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult
from pydantic import Field

from nbdebug.errors import BadInput
from nbdebug.integrations.mcp.answers import Bisected
from nbdebug.integrations.mcp.calling import Calls, Pictures, Seconds, answered
from nbdebug.integrations.mcp.places import target_under

__all__ = ["BisectCalls"]

HOW = "pass good and bad, or good with good_revision and bad_revision"
Revision = Annotated[
    str | None, Field(description="a commit, branch or tag of the repository; needs the other one, too")
]


class BisectCalls(Calls):
    """The tool that finds what broke a training."""

    async def bisect(
        self,
        good: Annotated[
            str,
            Field(
                description='the function that returns the setup that learns, "package.module:make_setup" or '
                '"folder/file.py:make_setup"; with revisions, the one that is called in both'
            ),
        ],
        ctx: Context,
        bad: Annotated[
            str | None, Field(description="the function that returns the setup that does not; none with revisions")
        ] = None,
        good_revision: Revision = None,
        bad_revision: Revision = None,
        metric: Annotated[
            str | None,
            Field(description='"module:function" of metric(model, batches), higher is better, where no usual one fits'),
        ] = None,
        steps: Annotated[int | None, Field(ge=8, description="the steps of each training; good says how many")] = None,
        links: Annotated[
            list[str] | None,
            Field(description="with revisions: files and folders that are not committed and needed, such as data"),
        ] = None,
        time_limit: Seconds = None,
        pictures: Pictures = False,
    ) -> Annotated[CallToolResult, Bisected]:
        """Find what makes a training fail that worked before: exchange what differs on copies until it learns.

        Where two revisions cannot be exchanged, the commits between them are walked, with a short training as the test.
        """
        job: dict[str, Any] = {"tool": "bisect", "good": self._function(good), "steps": steps, "pictures": pictures}
        if [bad is None, good_revision is None, bad_revision is None] == [False, True, True]:
            job["bad"] = self._function(str(bad))
        elif bad is None and good_revision and bad_revision:
            job |= {"revisions": [good_revision, bad_revision], "links": self._links(links or [])}
        else:
            raise ToolError(f"It is not clear which two are meant: {HOW}.")
        job["metric"] = self._function(metric) if metric else None
        return answered(await self._run(job, time_limit, ctx), Bisected)

    def _function(self, given: str) -> dict[str, Any]:
        found: dict[str, Any] = self._checked(target_under, given)
        if found["kind"] != "function":
            raise ToolError(
                f"{given} is a notebook; bisect takes functions. Put the setup into a function of a module."
            )
        return found

    def _links(self, given: list[str]) -> list[str]:
        return [self._checked(_under, path) for path in given]


def _under(root: Path, given: str) -> str:
    path = (root / given).resolve()
    if not path.is_relative_to(root) or not path.exists():
        raise BadInput(
            "it is outside the root of this server, or not there",
            where=given,
            expected=f"a file or folder under {root}",
            do="check the path",
        )
    return path.relative_to(root).as_posix()
