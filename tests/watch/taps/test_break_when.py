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
    assert "nbdebug stopped at the output of scales.1 (Scale), step 1" in shown
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
    assert "nbdebug stopped at the input of scales.1 (Scale), step 0:" in shown
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
    assert "q quits the run with BdbQuit" in shown and "\nbdb.BdbQuit" in shown and "went on" not in shown
    code = (
        "import sys\nnbdebug.tap(net, 'scales.0').break_when(lambda value: True)\n"
        "try: net(object())\nexcept TypeError: print('raised', sys.gettrace())"
    )
    assert "raised None" in script(tmp_path, code, [])


NESTED = """
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scale()

    def forward(self, x):
        mine = 7
        y = self.inner(x)
        return y * 10

net = nn.Sequential(Outer())
"""


def test_every_stop_is_in_its_own_frame_also_after_an_earlier_one(tmp_path: Path) -> None:
    shown = script(
        tmp_path,
        f"{NESTED}\nnbdebug.tap(net, ['0', '0.inner']).break_when(lambda value: True)\nnet(torch.ones(2))\n"
        "import sys\nprint('went on', sys.gettrace())",
        ["c", "p 'frame of', type(self).__name__, mine", "c"],
    )
    assert "output of 0 (Outer), step 0:" in shown and "('frame of', 'Outer', 7)" in shown
    assert shown.rstrip().endswith("went on None")


def test_who_steps_on_after_a_stop_and_then_goes_on_stops_in_the_frame_around(tmp_path: Path) -> None:
    shown = script(
        tmp_path,
        f"{NESTED}\nnbdebug.tap(net, ['0', '0.inner']).break_when(lambda value: True)\nnet(torch.ones(2))\n"
        "import sys\nprint('went on', sys.gettrace())",
        ["n", "n", "c", "p 'frame of', type(self).__name__, mine", "c"],
    )
    assert "('frame of', 'Outer', 7)" in shown
    assert shown.rstrip().endswith("went on None")


def test_a_tracer_of_the_user_is_given_back(tmp_path: Path) -> None:
    shown = script(
        tmp_path,
        "import sys\ndef tracer(frame, event, value): return tracer\n"
        "nbdebug.tap(net, 'scales.*').break_when(lambda value: True)\nsys.settrace(tracer)\nnet(torch.ones(2))\n"
        "print('kept', sys.gettrace() is tracer)",
        ["c", "c"],
    )
    assert shown.rstrip().endswith("kept True") and shown.count("nbdebug stopped") == 2


def test_what_raises_leaves_no_trace_and_is_asked_nothing(tmp_path: Path) -> None:
    shown = script(
        tmp_path,
        "import sys\ndef fail(module, args):\n    if args[0].max() > 4: raise RuntimeError\n"
        "nbdebug.tap(net, 'scales.0', pick=lambda output: output[0]).break_when(lambda value: True)\n"
        "net.scales[0].register_forward_pre_hook(fail)\n"
        "for x in (torch.ones(2) * 5, [], torch.ones(2)):\n"
        "    try: net(x)\n    except (RuntimeError, AttributeError, TypeError): print('raised', sys.gettrace())\n",
        ["c"],
    )
    assert shown.count("raised None") == 2 and shown.count("nbdebug stopped") == 1
    assert "no longer stops" not in shown


@pytest.mark.parametrize("of", ["input", "output", "gradient"])
@pytest.mark.parametrize("opened", ["", "import sys; sys.stdin = None\n"], ids=["end of input", "no input"])
def test_without_input_the_training_goes_on_and_says_what_was_seen(tmp_path: Path, of: str, opened: str) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        f"{SCRIPT}\n{opened}net = nn.Sequential(nn.Linear(2, 2))\n"
        f"nbdebug.tap(net, '0', of={of!r}).break_when(lambda value: True)\n"
        "net(torch.ones(2)).sum().backward()\nprint('went on')"
    )
    done = subprocess.run(
        [sys.executable, str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    said = [line for line in done.stdout.splitlines() if "nbdebug would stop at the" in line]
    assert len(said) == 1 and f"{of} of 0 (Linear), step 0: float32" in said[0] and "the run continues" in said[0]
    assert done.stdout.rstrip().endswith("went on") and "Traceback" not in done.stderr


@pytest.mark.kernel
def test_a_kernel_that_allows_no_input_goes_on() -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        message = client.execute(
            f"{SCRIPT}\nwith nbdebug.tap(net, 'scales.1').break_when(lambda value: True):\n"
            "    net(torch.full((2,), 5.0))\nprint('went on')",
            allow_stdin=False,
        )
        shown = answered(client, message, [])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert "nbdebug would stop at the output of scales.1 (Scale), step 0" in shown
    assert shown.rstrip().endswith("went on")


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
