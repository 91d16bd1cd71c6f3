"""The questions of the extension, asked in a real kernel as the extension asks them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

pytestmark = pytest.mark.kernel

MAKE = """
import torch, nbdebug
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 3)
        self.last = nn.Softmax(dim=1)
    def forward(self, x):
        return self.last(self.head(self.body(x).relu()))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(12, 4), torch.randint(0, 3, (12,))) for _ in range(4)]
"""
TRAIN = """
with nbdebug.watch(model, optimizer):
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
OPEN = '__import__("nbdebug.integrations.lab.panel", fromlist=["open_wizard"]).open_wizard'


class Kernel:
    def __init__(self, client: BlockingKernelClient, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.heard: list[dict[str, Any]] = []

    def run(self, code: str, **options: Any) -> dict[str, Any]:
        """Run code and give the reply; what is sent over a channel meanwhile is kept."""

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == "page":
                self.heard.append(message["content"]["data"])

        reply = self.client.execute_interactive(code, timeout=120, output_hook=hear, **options)
        content: dict[str, Any] = reply["content"]
        return content

    def ask(self, question: str, **details: Any) -> Any:
        lab = '__import__("nbdebug.integrations.lab", fromlist=["answer"])'
        call = f"{lab}.answer({question!r}, {json.dumps(json.dumps(details))})"
        content = self.run("", silent=True, store_history=False, user_expressions={"nbdebug": call})
        return content["user_expressions"]["nbdebug"]["data"]["application/json"]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("work")
    manager, client = start_new_kernel(cwd=str(folder))
    try:
        yield Kernel(client, folder)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def made(kernel: Kernel) -> Kernel:
    """The kernel with a model in it."""
    assert kernel.run(MAKE)["status"] == "ok"
    return kernel


def test_the_questions_leave_no_trace_and_import_no_torch(kernel: Kernel) -> None:
    before = kernel.run("import sys")["execution_count"]
    assert kernel.ask("candidates")["model"] == []
    assert kernel.ask("mishap") == {"kind": "", "says": ""}
    assert kernel.ask("reports") == {"reports": []}
    asked = kernel.run("assert 'torch' not in sys.modules and not [n for n in globals() if 'nbdebug' in n]")
    assert (asked["status"], asked["execution_count"]) == ("ok", before + 1)


def test_a_training_is_told_while_it_runs_and_when_it_ends(made: Kernel) -> None:
    assert made.run(TRAIN)["status"] == "ok" and made.heard == []  # nobody has asked to hear of it
    assert made.ask("connect", channel="page") == {"connected": True}
    assert made.run(TRAIN)["status"] == "ok"
    first, last = made.heard[0]["watch"], made.heard[-1]["watch"]
    assert (first["running"], first["steps"]) == (True, 0)
    assert (last["running"], last["steps"], last["health"]["state"]) == (False, 20, "healthy")
    assert last["loss"] == pytest.approx(1.1, abs=0.1)
    made.heard.clear()
    made.ask("disconnect", channel="page")
    assert made.run(TRAIN)["status"] == "ok" and made.heard == []


def test_the_wizard_of_the_panel_tells_its_findings_with_their_lines(made: Kernel) -> None:
    made.ask("connect", channel="page")
    options = "thresholds={'initial-loss-off': {'too_high': 9.0}}, time_limit=60"
    names = {"model": "model", "loader": "loader", "optimizer": "optimizer"}
    opened = made.run(f"{OPEN}(model, loader, optimizer, names={names}, {options})", store_history=False)
    assert opened["status"] == "ok", opened["evalue"]
    checks = ["softmax-before-cross-entropy", "unregistered-parameters"]
    run = f"nbdebug.integrations.lab.panel.shown_wizard().session.run({checks})"
    assert made.run(run)["status"] == "ok"
    found = {finding["check"]: finding for finding in made.heard[-1]["findings"]}
    softmax = found["softmax-before-cross-entropy"]
    assert (softmax["where"], softmax["name"], softmax["file"]) == ("last", "model", "")
    # IPython takes empty lines off the head of a cell, so that the first one does not count.
    assert (softmax["line"], softmax["text"]) == (10, "self.last = nn.Softmax(dim=1)") and softmax["cell"] > 0
    limits = "nbdebug.integrations.lab.panel.shown_wizard().session"
    assert made.run(f"assert {limits}.thresholds == {{'initial-loss-off': {{'too_high': 9.0}}}}")["status"] == "ok"
    made.ask("disconnect", channel="page")


def test_a_report_is_written_where_it_is_wanted(made: Kernel) -> None:
    made.run("report = nbdebug.diagnose(model, loader, checks=['forward-fails'], progress=False)")
    listed = made.ask("reports")["reports"]
    assert {"key": "report", "text": "report: report"} in listed
    written = made.ask("export", key="report", path="out/found.json")
    assert json.loads((made.folder / written["path"]).read_text())["schema"] == 1
    assert "no report called 'gone'" in made.ask("export", key="gone", path="x.html")["error"]
    assert "ends in" in made.ask("export", key="report", path="found.xyz")["error"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("model(torch.randn(2, 5))", "shape"),
        ("nn.CrossEntropyLoss()(torch.randn(2, 3), torch.tensor([0, 3]))", "label"),
        ("model(torch.zeros(2, 4).long())", "dtype"),
        ("loss = torch.tensor(float('nan'))\nassert torch.isfinite(loss)", "nan"),
        ("import numpy\nnumpy.ones(3) @ numpy.ones(4)", ""),
        ("1 / 0", ""),
    ],
)
def test_only_errors_of_torch_are_offered_to_be_explained(made: Kernel, code: str, kind: str) -> None:
    assert made.run(code)["status"] == "error"
    assert made.ask("mishap")["kind"] == kind


def test_the_explanation_comes_as_an_output(made: Kernel) -> None:
    made.run("model(torch.randn(2, 5))")
    data = made.ask("explain")["data"]
    assert "body" in data["text/plain"] and "in_features=5" in data["text/plain"]
    assert data["text/html"].startswith('<div class="nbdebug-error"')
