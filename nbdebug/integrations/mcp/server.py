"""The server: six tools over standard input and output; what they run, they run in a child process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import Field

import nbdebug
from nbdebug.errors import NbdebugError
from nbdebug.integrations.mcp.answers import Check, CheckList, Diagnosis, Explanation, Verified
from nbdebug.integrations.mcp.child import run_child
from nbdebug.integrations.mcp.places import file_under, target_under

__all__ = ["Tools", "build", "serve"]

KEPT = 20  # reports that `verify` can be asked about
AT_ONCE = 2  # child processes
INSTRUCTIONS = """\
nbdebug finds out why a PyTorch model does not train, by experiments on a copy of it. Call `diagnose` with a function
that returns {"model": …, "loader": …, "loss_fn": …, "optimizer": …} ("package.module:make_setup"), or with a notebook
and the names of its variables. Findings come with numbers and fixes, the most likely cause first: a `bug` is almost
surely wrong, a `suspect` needs a look, a `note` is information. Fix the first one, then diagnose again. `verify` tries
a fix on a copy before you change the code. An empty list says that the checks that ran found nothing: read `not_tried`
as well. Neither files nor live objects are changed by nbdebug; the program itself is run, in a process of its own."""

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


class Tools:
    """The tools, and the reports that were made with them."""

    def __init__(self, root: Path, *, time_limit: float, include_samples: bool = False) -> None:
        self.root = root.resolve()
        self.time_limit, self.include_samples = time_limit, include_samples
        self._reports: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._made = 0
        self._free = anyio.CapacityLimiter(AT_ONCE)

    async def diagnose(
        self,
        target: Target,
        ctx: Context,
        names: Names = None,
        cells: Cells = None,
        effort: Annotated[
            Literal["quick", "normal", "thorough"],
            Field(
                description="quick: nothing that trains; normal: about a minute; thorough: as long as the time limit"
            ),
        ] = "normal",
        symptom: Annotated[str | None, Field(description='what is wrong, such as "loss is NaN"')] = None,
        checks: Annotated[list[str] | None, Field(description="run only these checks, by their ids")] = None,
        skip: Annotated[list[str] | None, Field(description="leave these checks out")] = None,
        seed: Annotated[int, Field(ge=0, lt=2**32)] = 0,
        time_limit: Seconds = None,
        pictures: Pictures = False,
    ) -> Annotated[CallToolResult, Diagnosis]:
        """Run the program's setup, examine a copy of it with every check, and return what is wrong and what to try.

        The program is run in a child process; a crash, a hang or an exit of it is reported as such.
        """
        where = self._target(target, names, cells)
        options = {"effort": effort, "symptom": symptom, "checks": checks, "skip": skip, "seed": seed}
        job = {"tool": "diagnose", "target": where, "pictures": pictures, **options}
        answer = await self._run(job, time_limit, ctx)
        return self._result(answer, Diagnosis, name=self._keep(answer, where))

    async def watch_report(
        self,
        recording: Annotated[
            str, Field(description="the path of a file that `live.save` of `nbdebug.watch` wrote (.npz)")
        ],
        ctx: Context,
        time_limit: Seconds = None,
        pictures: Pictures = False,
    ) -> Annotated[CallToolResult, Diagnosis]:
        """Judge a saved recording of a training run: its loss curve, gradients, activations and updates."""
        path = self._checked(file_under, recording, ".npz")
        answer = await self._run(
            {"tool": "watch_report", "recording": str(path), "pictures": pictures}, time_limit, ctx
        )
        return self._result(answer, Diagnosis)

    async def verify(
        self,
        report: Annotated[str, Field(description="the name that `diagnose` gave its report")],
        ctx: Context,
        finding: Annotated[int, Field(ge=1, description="the number of the finding in it, counted from 1")] = 1,
        fix: Annotated[
            int | None, Field(ge=1, description="the number of the fix; without it, one after the other")
        ] = None,
        time_limit: Seconds = None,
        pictures: Pictures = False,
    ) -> Annotated[CallToolResult, Verified]:
        """Try a fix on a copy: run the check again and train briefly, patched against as it is. Nothing is applied."""
        known = self._reports.get(report)
        if known is None:
            raise ToolError(
                f"There is no report {report!r}. Call diagnose; known are: {', '.join(self._reports) or 'none'}."
            )
        found = known["report"]["findings"]
        if finding > len(found):
            raise ToolError(f"The report {report} has {len(found)} findings, and no number {finding}.")
        job = {
            "tool": "verify",
            "target": known["target"],
            "finding": found[finding - 1],
            "fix": fix,
            "pictures": pictures,
        }
        return self._result(await self._run(job, time_limit, ctx), Verified)

    def list_checks(self) -> CheckList:
        """List every check with its id, its title and its stage, in the order of the decision tree."""
        from nbdebug.core.registry import registry
        from nbdebug.engine.decision_tree import stages

        tree = stages(registry.load("nbdebug.checks"))
        return CheckList(
            checks=[
                Check(id=check, title=nbdebug.explain(check).title, stage=stage.title)
                for stage in tree
                for check in stage.checks
            ]
        )

    def explain(
        self, check: Annotated[str, Field(description="the id of a check, such as batch-mixing")]
    ) -> Explanation:
        """Say what a check detects, why it matters, what to try, and with which thresholds it judges."""
        try:
            known = nbdebug.explain(check)
        except NbdebugError as error:
            raise ToolError(str(error)) from error
        return Explanation(**{name: getattr(known, name) for name in Explanation.model_fields})

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

    def _keep(self, answer: Mapping[str, Any], target: dict[str, Any]) -> str | None:
        """Keep a report for `verify`, and give it a name; the oldest go."""
        if "report" not in answer:
            return None
        self._made += 1
        name = f"r{self._made}"
        self._reports[name] = {"report": answer["report"], "target": target}
        while len(self._reports) > KEPT:
            self._reports.popitem(last=False)
        return name

    def _result(self, answer: dict[str, Any], form: Any, name: str | None = None) -> CallToolResult:
        content = form.model_validate({**answer, "report": name})
        text = answer.get("text") or _failure(answer)
        if name and any(fix["can_be_verified"] for found in answer["findings"] for fix in found["fixes"]):
            text += f'\nverify(report="{name}", finding=…) tries a fix on a copy.'
        pictures = [
            ImageContent(type="image", data=one["data"], mime_type="image/png") for one in answer.get("pictures", ())
        ]
        return CallToolResult(
            content=[TextContent(type="text", text=text), *pictures], structured_content=content.model_dump(mode="json")
        )


def _failure(answer: Mapping[str, Any]) -> str:
    """Say in a few lines how the program failed."""
    error, place = answer["error"], answer["error"].get("place")
    cell = f", cell {place['cell']}" if place and place.get("cell") else ""
    where = f" at {place['file']}{cell}, line {place['line']}" if place else ""
    parts = [
        f"The program {answer['status']}{where}: {error['type']}: {error['message']}",
        error.get("explanation", ""),
    ]
    parts += [error["traceback"][-1500:], f"It printed:\n{answer['output'][-800:]}" if answer.get("output") else ""]
    return "\n\n".join(part for part in parts if part)


def build(root: Path, *, time_limit: float, include_samples: bool = False) -> MCPServer:
    """Return the server with its tools."""
    tools = Tools(root, time_limit=time_limit, include_samples=include_samples)
    server: MCPServer = MCPServer(
        "nbdebug", instructions=INSTRUCTIONS, version=nbdebug.__version__, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for reader in (tools.explain, tools.list_checks, tools.watch_report):
        server.add_tool(reader, annotations=reads)
    for runner in (tools.diagnose, tools.verify):  # they run the user's program, which may do anything
        server.add_tool(runner)
    return server


def serve(root: Path, *, time_limit: float, include_samples: bool = False) -> None:
    """Serve over standard input and output until the client closes them."""
    build(root, time_limit=time_limit, include_samples=include_samples).run("stdio")
