"""Cancel, and clicks during a running cell, in a real kernel: what the front end sends, and what comes back.

`NBDEBUG_KERNEL` names the Python that runs the kernel, so that `make test-kernels` can try several ipykernels.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from queue import Empty
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

# One kernel and one order: with ipykernel 7.4 the very first click on a subshell waits for the cell, unseen.
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300), pytest.mark.xdist_group("in a kernel")]

# A forward that takes its time, so that the experiment is still at it when Cancel arrives.
SHOW = """
import time, torch, nbdebug
from nbdebug.engine.decision_tree import step_of
from nbdebug.core.registry import registry
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.01)
        return x
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
model = nn.Sequential(nn.Linear(8, 3), Slow())
before = [p.detach().clone() for p in model.parameters()]
wizard = nbdebug.wizard(model, DataLoader(data, 32, shuffle=True), nn.CrossEntropyLoss())
wizard.face.tree.selected = next(s.id for _, s in step_of(registry) if "cannot-overfit-batch" in s.checks)
print(*(getattr(wizard.face, name).model_id for name in ("run_step", "stop", "status", "progress")))
"""
TRAINING = """
print("begun", flush=True)
torch.manual_seed(7)
drawn = []
for _ in range(150):
    time.sleep(0.01)
    drawn.append(float(torch.rand(())))
torch.manual_seed(7)
print("undisturbed:", drawn == [float(torch.rand(())) for _ in range(150)])
"""
ASK = """
print(wizard.runner.is_busy, wizard.face.run_step.disabled, len(wizard.session.journal.results),
      all(torch.equal(a, b) for a, b in zip(before, model.parameters())))
"""


class Kernel:
    """One kernel with a wizard in it, seen from where a front end sits."""

    def __init__(self, python: str) -> None:
        self.manager = KernelManager(kernel_name="python3")
        assert self.manager.kernel_spec is not None
        self.manager.kernel_spec.argv[0] = python
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(120)
        self.subshell = self._subshell()
        self.said: dict[str, dict[str, Any]] = {}  # the newest state of each widget
        self.printed: list[str] = []
        names = self.execute(SHOW)
        assert len(names.split()) == 4, names
        self.run, self.stop, self.status, self.progress = names.split()

    def _subshell(self) -> str | None:
        """Open a subshell where the kernel has them: what JupyterLab sends for widgets overtakes a running cell."""
        known = self.client.kernel_info(reply=True, timeout=60)["content"]
        if "kernel subshells" not in known.get("supported_features", ()):
            return None
        message = self.client.session.msg("create_subshell_request", {})
        self.client.control_channel.send(message)
        reply = self.client.get_control_msg(timeout=60)
        return str(reply["content"]["subshell_id"])

    def begin(self, code: str) -> str:
        """Send a cell and return at once."""
        return str(self.client.execute(code))

    def execute(self, code: str) -> str:
        """Run a cell to its end and give what it printed."""
        self.printed.clear()
        self.end(self.begin(code))
        return "".join(self.printed)

    def end(self, cell: str, seconds: float = 60) -> None:
        """Wait for the end of a cell."""
        ended = self.listen(lambda m: m["parent_header"].get("msg_id") == cell and _is_idle(m), seconds)
        assert ended, f"a cell did not end: {self.printed}"

    def click(self, widget: str) -> None:
        """Send what the front end sends when a button is clicked."""
        content = {"comm_id": widget, "data": {"method": "custom", "content": {"event": "click"}}}
        message = self.client.session.msg("comm_msg", content)
        if self.subshell is not None:
            message["header"]["subshell_id"] = self.subshell
        self.client.shell_channel.send(message)

    def listen(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 30) -> bool:
        """Read what comes until this does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=0.5)
            except Empty:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                self.printed.append(content["text"])
            elif kind == "comm_msg" and content["data"].get("method") == "update":
                self.said.setdefault(content["comm_id"], {}).update(content["data"]["state"])
            elif kind == "error":
                self.printed.append("\n".join(content["traceback"]))
            if wanted(message):
                return True
        return False

    def hear(self, text: str, seconds: float = 60) -> bool:
        """Wait until the status says this."""
        return self.listen(lambda _: text in str(self.said.get(self.status, {}).get("value", "")), seconds)

    def rest(self, seconds: float = 60) -> list[str]:
        """Wait until the buttons are back, and ask how everything stands."""
        assert self.listen(lambda _: self.said.get(self.run, {}).get("disabled") is False, seconds)
        return self.execute(ASK).split()


def _is_idle(message: dict[str, Any]) -> bool:
    return bool(message["msg_type"] == "status" and message["content"]["execution_state"] == "idle")


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    started = Kernel(os.environ.get("NBDEBUG_KERNEL", sys.executable))
    yield started
    started.client.stop_channels()
    started.manager.shutdown_kernel(now=True)


def test_cancel_in_the_middle_of_an_overfit_run(kernel: Kernel) -> None:
    """A click on Cancel ends the experiment long before its own end; the model is as before, and it can run again."""
    kernel.click(kernel.run)
    assert kernel.hear("overfitting one batch")
    assert kernel.said.get(kernel.progress, {"value": 0.0})["value"] < 0.5  # it says nothing before it moves
    kernel.click(kernel.stop)
    busy, disabled, _, same = kernel.rest(10)
    assert (busy, disabled, same) == ("False", "False", "True")


def test_a_click_during_a_training_cell_waits_and_is_not_lost(kernel: Kernel) -> None:
    """The cell's random numbers are its own; the step runs when the cell has ended, also if a second cell comes."""
    kernel.printed.clear()
    cell = kernel.begin(TRAINING)
    assert kernel.listen(lambda _: "begun" in "".join(kernel.printed))  # a click on a subshell overtakes what waits
    kernel.click(kernel.run)
    if kernel.subshell is not None:  # elsewhere the front end says it, because the kernel has not heard of it yet
        assert kernel.hear("waits for the running cell", 5)
    kernel.end(cell)
    assert "undisturbed: True" in "".join(kernel.printed)
    assert kernel.hear("overfitting one batch")
    assert "undisturbed: True" in kernel.execute(TRAINING)  # it gives way, and begins again
    assert kernel.hear("overfitting one batch")
    kernel.click(kernel.stop)
    assert kernel.rest(10)[3] == "True"
