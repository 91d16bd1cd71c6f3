"""The server: seven tools over standard input and output; what they run, they run in a child process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import Field

import nbdebug
from nbdebug.errors import NbdebugError
from nbdebug.integrations.mcp.answers import Check, CheckList, Diagnosis, Explanation, Verified
from nbdebug.integrations.mcp.bisect_tool import BisectCalls
from nbdebug.integrations.mcp.calling import Cells, Names, Pictures, Seconds, Target, answered, failure
from nbdebug.integrations.mcp.places import file_under

__all__ = ["Tools", "build", "serve"]

KEPT = 20  # reports that `verify` can be asked about
INSTRUCTIONS = """\
nbdebug finds out why a PyTorch model does not train, by experiments on a copy of it. Call `diagnose` with a function
that returns {"model": …, "loader": …, "loss_fn": …, "optimizer": …} ("package.module:make_setup"), or with a notebook
and the names of its variables. Findings come with numbers and fixes, the most likely cause first: a `bug` is almost
surely wrong, a `suspect` needs a look, a `note` is information. Fix the first one, then diagnose again. `verify` tries
a fix on a copy before you change the code. `bisect` says what broke a training that worked before, between two setups
or two revisions of a Git repository. An empty list says that the checks that ran found nothing: read `not_tried` as
well. Neither files nor live objects are changed by nbdebug; the program itself is run, in a process of its own."""


class Tools(BisectCalls):
    """The tools, and the reports that were made with them."""

    def __init__(self, root: Path, *, time_limit: float, include_samples: bool = False) -> None:
        super().__init__(root, time_limit=time_limit, include_samples=include_samples)
        self._reports: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._made = 0

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
        text = answer.get("text") or failure(answer)
        if name and any(fix["can_be_verified"] for found in answer["findings"] for fix in found["fixes"]):
            text += f'\nverify(report="{name}", finding=…) tries a fix on a copy.'
        return answered({**answer, "report": name, "text": text}, form)


def build(root: Path, *, time_limit: float, include_samples: bool = False) -> MCPServer:
    """Return the server with its tools."""
    tools = Tools(root, time_limit=time_limit, include_samples=include_samples)
    server: MCPServer = MCPServer(
        "nbdebug", instructions=INSTRUCTIONS, version=nbdebug.__version__, log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for reader in (tools.explain, tools.list_checks, tools.watch_report):
        server.add_tool(reader, annotations=reads)
    for runner in (tools.diagnose, tools.verify, tools.bisect):  # they run the user's program, which may do anything
        server.add_tool(runner)
    return server


def serve(root: Path, *, time_limit: float, include_samples: bool = False) -> None:
    """Serve over standard input and output until the client closes them."""
    build(root, time_limit=time_limit, include_samples=include_samples).run("stdio")
