"""The curves of a watched training and progress in a real kernel: shown once, live while the cell runs, and cleaned up.

`NBDEBUG_KERNEL` names the Python that runs the kernel, so that `make test-kernels` can try several ipykernels.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from queue import Empty
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode
from nbformat.v4 import output_from_msg

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300)]
VIEW = "application/vnd.jupyter.widget-view+json"
OUTPUTS = ("stream", "display_data", "execute_result", "error")

SETUP = """
%load_ext nbdebug
import gc, sys, weakref, torch, nbdebug
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
loader = [(torch.randn(12, 4), torch.randint(0, 3, (12,))) for _ in range(4)]
def make():
    global model, optimizer
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
def fit(times=3):
    for x, y in loader * times:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
make()
"""
# Goes on until the curves were brought up to date several times, however slow the machine is.
UNTIL_SENT = """
with nbdebug.watch(model, optimizer) as live:
    sent = []
    live.view.widget.observe(sent.append, "data")
    while len(sent) < 3:
        fit()
    print("the loop is over", flush=True)
"""


WATCH = "with nbdebug.watch(model, optimizer) as live:"
SILENT = "with nbdebug.watch(model, optimizer, show=False) as live:"


class Kernel:
    """A kernel, and what a front end would show of the cells that it runs."""

    def __init__(self, python: str) -> None:
        self.manager = KernelManager(kernel_name="python3")
        assert self.manager.kernel_spec is not None
        self.manager.kernel_spec.argv[0] = python
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(120)
        self.messages: list[dict[str, Any]] = []
        self.run(SETUP)

    def run(self, code: str, seconds: float = 120) -> list[NotebookNode]:
        """Run a cell; give its outputs as they stand at its end, and keep everything that was sent meanwhile."""
        self.messages, shown, by_id = [], [], {}
        cell, end = self.client.execute(code), time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=0.5)
            except Empty:
                continue
            self.messages.append(message)
            kind, content = message["msg_type"], message["content"]
            name = content.get("transient", {}).get("display_id")
            if kind in OUTPUTS:
                shown.append(output_from_msg(message))
                by_id[name] = shown[-1]
            elif kind == "update_display_data" and name in by_id:
                by_id[name].data = nbformat.from_dict(content["data"])
            elif content.get("execution_state") == "idle" and message["parent_header"]["msg_id"] == cell:
                errors = [output for output in shown if output.output_type == "error"]
                assert not errors, "\n".join(errors[0].traceback)
                return shown
        raise AssertionError("the cell did not end")

    def steps_sent(self) -> list[int]:
        """Return the steps of every update of the curves, and -1 where the loop of the cell was over."""
        found = []
        for message in self.messages:
            content = message["content"]
            if message["msg_type"] == "stream" and "the loop is over" in content["text"]:
                found.append(-1)
            elif message["msg_type"] == "comm_msg" and "data" in content["data"].get("state", {}):
                found.append(content["data"]["state"]["data"]["steps"])
        return found


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    started = Kernel(os.environ.get("NBDEBUG_KERNEL", sys.executable))
    yield started
    started.client.stop_channels()
    started.manager.shutdown_kernel(now=True)


def views(outputs: list[NotebookNode]) -> list[str]:
    """Return the live views among the outputs, by their models."""
    return [output.data[VIEW]["model_id"] for output in outputs if VIEW in output.get("data", {})]


def test_the_curves_appear_by_themselves_and_grow_while_the_cell_runs(kernel: Kernel) -> None:
    """Messages with more and more steps come before the loop ends; what stays has the whole curve without a kernel."""
    outputs = kernel.run(UNTIL_SENT)
    sent = kernel.steps_sent()
    during = [steps for steps in sent[: sent.index(-1)] if steps]
    assert len(views(outputs)) == 1 and len(set(during)) >= 2 and during == sorted(during)
    live, still, printed = outputs
    assert VIEW in live.data and printed.text == "the loop is over\n"
    assert f"{sent[-1]} steps" in still.data["text/plain"] and "image/png" in still.data
    assert 'src="data:image/svg+xml' in still.data["text/html"]


@pytest.mark.parametrize(
    "cell",
    [
        f"{WATCH}\n    nbdebug.show_live(live)\n    fit()",
        f"{WATCH}\n    fit()\nlive",
        f"{WATCH}\n    fit()\nnbdebug.show_live(live)",
        f"{SILENT}\n    view = nbdebug.show_live(live)\n    fit()\nview",
        f"{SILENT}\n    fit()\ndisplay(nbdebug.show_live(live))\nlive.step",
        "live = nbdebug.watch(model, optimizer)\nfor epoch in range(3):\n    with live:\n        fit(1)",
        "%%watch model optimizer\nfit()",
        "%%watch model optimizer\nfit()\nlive",
    ],
)
def test_one_view_in_a_cell_however_often_it_is_asked_for(kernel: Kernel, cell: str) -> None:
    outputs = kernel.run(cell)
    assert len(views(outputs)) == 1
    assert "12 steps" in outputs[1].data["text/plain"] and "image/png" in outputs[1].data


def test_another_cell_shows_the_run_again_and_both_keep_what_is_added(kernel: Kernel) -> None:
    """A run that goes on across cells has the same live view in each."""
    first = kernel.run("live = nbdebug.watch(model, optimizer).start()\nfit()")
    second = kernel.run("nbdebug.show_live(live)\nfit()\nlive.stop().log(val_loss=0.5)")
    assert views(first) == views(second) and len(views(first)) == 1
    kept = [m["content"]["data"] for m in kernel.messages if m["msg_type"] == "update_display_data"]
    assert len(kept) == 2 and all(
        "24 steps" in data["text/plain"] and "val_loss" in data["text/plain"] for data in kept
    )
    assert not kernel.run("fit()")


def test_nothing_is_shown_where_it_is_turned_off(kernel: Kernel) -> None:
    assert not kernel.run(f"{SILENT}\n    fit()")


def test_what_was_recorded_before_an_error_is_kept(kernel: Kernel) -> None:
    broken = "    with nbdebug.watch(model, optimizer):\n        fit()\n        1 / 0"
    outputs = kernel.run(f"try:\n{broken}\nexcept ZeroDivisionError:\n    pass")
    assert len(views(outputs)) == 1 and "after 12 steps" in outputs[1].data["text/html"]


def test_a_view_does_not_keep_the_model_in_memory(kernel: Kernel) -> None:
    """Training again and again in one notebook must not fill the memory with old models."""
    kernel.run(f"make()\n{WATCH}\n    fit()\nold = weakref.ref(model)")
    kernel.run(f"make()\n{WATCH}\n    fit()")
    (printed,) = kernel.run("gc.collect()\nprint(old() is None)")
    assert printed.text == "True\n"


SLOW = """
import time
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(0.01)
        return x
model = nn.Sequential(nn.Linear(4, 3), Slow())
report = nbdebug.diagnose(model, loader, nn.CrossEntropyLoss(), quick=True)
"""


def test_progress_is_no_output_of_standard_error_and_leaves_nothing(kernel: Kernel) -> None:
    """While it runs the progress is to be seen; at the end no output has anything in it."""
    outputs = kernel.run(SLOW)
    seen = [m["content"]["data"] for m in kernel.messages if m["msg_type"] in ("display_data", "update_display_data")]
    assert any("<progress" in data.get("text/html", "") and "checks" in data["text/plain"] for data in seen)
    assert all(output.output_type == "display_data" and not any(output.data.values()) for output in outputs)
