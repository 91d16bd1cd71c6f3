"""The debugger opens in the frame of the module's own forward: in a plain script, and in a real kernel."""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

SCRIPT = """
import torch, nbdebug
from torch import nn

class Scale(nn.Module):
    @torch.no_grad()
    def forward(self, values):
        doubled = values * 2
        return doubled + 1

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ModuleList([Scale(), Scale()])

    def forward(self, x):
        for scale in self.scales:
            x = scale(x)
        return x

torch.manual_seed(0)
net = Net()
"""


def script(tmp_path: Path, code: str, typed: list[str]) -> str:
    """Run a script in a fresh interpreter, type into its debugger, and give all that it shows."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT + code)
    done = subprocess.run(
        [sys.executable, str(path)], input="\n".join(typed) + "\n", capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr


def test_stops_where_the_output_is_returned(tmp_path: Path) -> None:
    shown = script(
        tmp_path,
        "tap = nbdebug.tap(net, 'scales.1').break_when(lambda value: value.max() > 10)\n"
        "for x in (1.0, 5.0, 6.0): net(torch.full((2,), x))\n"
        "print('went on')",
        [
            "p 'mine', values.tolist(), doubled.tolist(), __return__.tolist()",
            "p 'it is', self is net.scales[1]",
            "c",
            "p 'again', values.tolist()",
            "tap.remove()",
            "c",
        ],
    )
    assert "nbdebug stops at the output of scales.1 (Scale), step 1" in shown
    assert "-> return doubled + 1" in shown
    assert "('mine', [11.0, 11.0], [22.0, 22.0], [23.0, 23.0])" in shown
    assert "('it is', True)" in shown
    assert "('again', [13.0, 13.0])" in shown and shown.rstrip().endswith("went on")


def test_stops_at_the_first_line_for_an_input_and_steps_from_there(tmp_path: Path) -> None:
    shown = script(
        tmp_path,
        "nbdebug.tap(net, 'scales.*', of='input').break_when(lambda value: value.max() > 10, times=1)\n"
        "net(torch.full((2,), 7.0)); net(torch.full((2,), 7.0))\nprint('went on')",
        ["p 'given', values.tolist()", "n", "p 'made', doubled.tolist()", "u", "c"],
    )
    assert "nbdebug stops at the input of scales.1 (Scale), step 0:" in shown
    assert "-> doubled = values * 2" in shown and "-> return doubled + 1" in shown
    assert "('given', [15.0, 15.0])" in shown and "('made', [30.0, 30.0])" in shown
    assert shown.rstrip().endswith("went on")


def test_stops_at_the_line_that_called_backward_for_a_gradient(tmp_path: Path) -> None:
    shown = script(
        tmp_path,
        "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\n"
        "nn.init.ones_(net[0].weight)  # so that the gradient gets through the ReLU whatever is drawn\n"
        "nbdebug.tap(net, '0', of='gradient').break_when(lambda value: value.max() > 0)\n"
        "def train():\n    loss = net(torch.ones(1, 2)).exp().sum()\n"
        "    loss.backward()\n    print('went on')\ntrain()",
        ["p 'loss is', loss.shape", "c"],
    )
    assert "-> loss.backward()" in shown and "('loss is', torch.Size([]))" in shown
    assert shown.rstrip().endswith("went on")


def test_quit_ends_the_run_and_an_error_in_the_forward_stays_what_it_is(tmp_path: Path) -> None:
    code = "nbdebug.tap(net, 'scales.0').break_when(lambda value: True)\nnet(torch.ones(2))\nprint('went on')"
    shown = script(tmp_path, code, ["q"])
    assert "BdbQuit" in shown and "went on" not in shown
    code = (
        "import sys\nnbdebug.tap(net, 'scales.0').break_when(lambda value: True)\n"
        "try: net(object())\nexcept TypeError: print('raised', sys.gettrace())"
    )
    assert "raised None" in script(tmp_path, code, [])


@pytest.mark.kernel
def test_opens_the_debugger_of_the_notebook() -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        message = client.execute(
            f"{SCRIPT}\nwith nbdebug.tap(net, 'scales.1').break_when(lambda value: value.max() > 10):\n"
            "    net(torch.full((2,), 5.0))\nprint('went on')",
            allow_stdin=True,
        )
        shown = answered(client, message, ["p 'mine', values.tolist(), __return__.tolist()", "c"])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert "ipdb>" in shown
    assert "output of scales.1 (Scale), step 0" in shown
    assert "('mine', [11.0, 11.0], [23.0, 23.0])" in shown
    assert shown.rstrip().endswith("went on")


def answered(client: object, message: str, answers: list[str]) -> str:
    """Answer what the kernel asks, and give all that it prints until it is idle again."""
    shown, left, until = "", list(answers), time.monotonic() + 90
    while time.monotonic() < until:
        try:
            asked = client.get_stdin_msg(timeout=0.05)  # type: ignore[attr-defined]
            shown += asked["content"]["prompt"]
            client.input(left.pop(0))  # type: ignore[attr-defined]
        except queue.Empty:
            pass
        try:
            said = client.get_iopub_msg(timeout=0.05)  # type: ignore[attr-defined]
        except queue.Empty:
            continue
        if said["parent_header"].get("msg_id") != message:
            continue
        if said["msg_type"] == "stream":
            shown += said["content"]["text"]
        elif said["msg_type"] == "error":
            shown += "\n".join(said["content"]["traceback"])
        elif said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
            return shown
    raise TimeoutError(shown)
