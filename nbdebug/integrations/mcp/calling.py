"""What every tool that runs the user's program shares: its arguments, the call in a child process, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ImageContent, TextContent
from pydantic import Field

from nbdebug.errors import NbdebugError
from nbdebug.integrations.mcp.child import run_child
from nbdebug.integrations.mcp.places import target_under

__all__ = ["Calls", "Cells", "Names", "Pictures", "Seconds", "Target", "answered", "failure"]

AT_ONCE = 2  # child processes

Target = Annotated[
    str,
    Field(
        description='the function that returns the setup, "package.module:make_setup" or "folder/file.py:make_setup", '
        "or the path of a notebook (.ipynb), from the root of the server"
    ),
]
Names = Annotated[
    dict[str, str] | None,
    Field(
        description='for a notebook: which variables are meant, such as {"model": "net", "loader": "train_loader", '
        '"loss_fn": "criterion", "optimizer": "opt"}; the code cells are run in order until all of them exist'
    ),
]
Cells = Annotated[int | None, Field(ge=1, description="for a notebook: run exactly the first so many code cells")]
Seconds = Annotated[
    float | None, Field(gt=0, description="end the call after so many seconds; the server's own limit is the most")
]
Pictures = Annotated[bool, Field(description="return the charts of the first findings as images, too")]


class Calls:
    """Runs jobs in child processes, a few at a time."""

    def __init__(self, root: Path, *, time_limit: float, include_samples: bool = False) -> None:
        self.root = root.resolve()
        self.time_limit, self.include_samples = time_limit, include_samples
        self._free = anyio.CapacityLimiter(AT_ONCE)

    def _target(self, target: str, names: dict[str, str] | None, cells: int | None) -> dict[str, Any]:
        return {**self._checked(target_under, target), "names": names, "cells": cells}

    def _checked(self, look: Any, *given: str) -> Any:
        try:
            return look(self.root, *given)
        except NbdebugError as error:
            raise ToolError(str(error)) from error

    async def _run(self, job: Mapping[str, Any], time_limit: float | None, ctx: Context) -> dict[str, Any]:
        limit = min(time_limit or self.time_limit, self.time_limit)
        async with self._free:
            answer = await run_child(
                self.root,
                {**job, "include_samples": self.include_samples},
                limit,
                lambda done, text: ctx.report_progress(done, message=text),
            )
        if answer["status"] == "refused":
            raise ToolError(answer["error"]["message"])
        return answer


def answered(answer: Mapping[str, Any], form: Any) -> CallToolResult:
    """Return an answer as structured content, with its short text and its pictures."""
    content = form.model_validate(answer)
    pictures = [
        ImageContent(type="image", data=one["data"], mime_type="image/png") for one in answer.get("pictures", ())
    ]
    return CallToolResult(
        content=[TextContent(type="text", text=answer.get("text") or failure(answer)), *pictures],
        structured_content=content.model_dump(mode="json"),
    )


def failure(answer: Mapping[str, Any]) -> str:
    """Say in a few lines how the program failed."""
    error, place = answer["error"], answer["error"].get("place")
    cell = f", cell {place['cell']}" if place and place.get("cell") else ""
    where = f" at {place['file']}{cell}, line {place['line']}" if place else ""
    parts = [
        f"The program {answer['status']}{where}: {error['type']}: {error['message']}",
        error.get("explanation", ""),
    ]
    parts += [
        error.get("traceback", "")[-1500:],
        f"It printed:\n{answer['output'][-800:]}" if answer.get("output") else "",
    ]
    return "\n\n".join(part for part in parts if part)
