"""The server for assistants, driven by the official client over standard input and output."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import nbformat
import psutil
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

import nbdebug

mcp = pytest.importorskip("mcp")
PROJECTS = Path(__file__).parent / "projects"
LIMIT = 200.0  # seconds; a busy machine needs them to import torch


class Server:
    """A server that was started as a client does, and a connection to it."""

    def __init__(self, portal: BlockingPortal, client: Any) -> None:
        self.portal, self.client = portal, client

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return the result."""
        return self.portal.call(lambda: self.client.call_tool(tool, arguments))

    def run(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that has to answer, and return the structured content."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content
        found: dict[str, Any] = result.structured_content
        return found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the projects, and a secret beside it."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "secret.py").write_text("def make_setup():\n    return {}\n")
    shutil.copytree(PROJECTS, folder / "root")
    return folder / "root"


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    """Start the server once; every test leaves it working for the next."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(connected(root)) as client:
        yield Server(portal, client)


def connected(root: Path) -> Any:
    """Return a client of a server of its own."""
    command = ["-m", "nbdebug", "mcp", "--root", str(root), "--time-limit", str(LIMIT)]
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=command, cwd=root, env={"OMP_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    )
    return mcp.Client(mcp.stdio_client(parameters))


def test_the_tools_are_described(server: Server) -> None:
    tools = {tool.name: tool for tool in server.portal.call(server.client.list_tools).tools}
    assert set(tools) >= {"bisect", "diagnose", "explain", "list_checks", "verify", "watch_report"}
    assert tools["explain"].annotations.read_only_hint and not tools["diagnose"].annotations
    for tool in tools.values():
        assert tool.description and tool.output_schema["type"] == "object"
        for name, value in tool.input_schema["properties"].items():
            assert value.get("description") or name == "seed", (tool.name, name)


def test_checks_are_listed_and_explained(server: Server) -> None:
    listed = server.run("list_checks")["checks"]
    assert [check["id"] for check in listed] == nbdebug.list_checks()
    known = server.run("explain", check="dead-units")
    assert known["title"] == nbdebug.explain("dead-units").title and known["thresholds"]["share"] == 0.5
    wrong = server.call("explain", check="dead-unit")
    assert wrong.is_error and "dead-units" in wrong.content[0].text


def test_a_loud_program_is_diagnosed_and_its_fix_verified(server: Server) -> None:
    """It writes to standard output from Python, from C and from a process; none of it reaches the protocol."""
    result = server.call(
        "diagnose", target="loud.train:make_setup", checks=["softmax-before-cross-entropy", "dead-units"], pictures=True
    )
    found = result.structured_content
    assert found["status"] == "completed" and found["error"] is None
    for line in ("from print", "from the system", "from a process", '"jsonrpc"'):
        assert line in found["output"], line
    (one,) = [finding for finding in found["findings"] if finding["severity"] != "note"]
    assert one["check"] == "softmax-before-cross-entropy" and one["severity"] == "bug"
    line = (PROJECTS / "loud" / "net.py").read_text().splitlines()[one["place"]["line"] - 1]
    assert one["place"]["file"] == "loud/net.py" and "Softmax" in line and one["place"]["text"] == line.strip()
    assert one["evidence"]["least loss with probabilities"] == pytest.approx(1.461, abs=0.01)
    assert one["fixes"][0]["can_be_verified"]
    assert [block.type for block in result.content] == ["text", "image"] and result.content[1].mime_type == "image/png"
    assert "softmax-before-cross-entropy" in result.content[0].text and len(result.content[0].text) < 3500
    tried = server.run("verify", report=found["report"], finding=1, fix=1)
    assert tried["status"] == "completed" and tried["verdict"] == "verified", tried
    assert len(tried["contests"]) == 2 and all(contest["after"] > contest["before"] for contest in tried["contests"])


def test_a_crash_is_a_result(server: Server) -> None:
    found = server.run("diagnose", target="crashing.py:make_setup")
    assert found["status"] == "crashed" and not found["findings"] and found["report"] is None
    assert found["error"]["type"] == "ZeroDivisionError" and found["error"]["place"]["text"] == "return rows / 0"
    assert found["error"]["place"]["file"] == "crashing.py" and "reading the rows" in found["output"]


@pytest.mark.parametrize(
    ("function", "status", "word"),
    [("leave", "exited", "exit"), ("die", "crashed", "SIGSEGV"), ("vanish", "exited", "7")],
)
def test_an_exit_is_a_result(server: Server, function: str, status: str, word: str) -> None:
    """Also one that passes Python by; the line where it was is known where Python lived to tell."""
    found = server.run("diagnose", target=f"crashing:{function}")
    assert found["status"] == status and word in f"{found['error']['type']} {found['error']['message']}"
    if function != "vanish":
        assert found["error"]["place"]["file"] == "crashing.py"


def test_a_hang_ends_with_the_time_limit(server: Server, root: Path) -> None:
    found = server.run("diagnose", target="hanging:make_setup", time_limit=15)
    assert found["status"] == "timed out"
    assert found["error"]["place"]["text"] == "lock.acquire()" and found["error"]["place"]["file"] == "hanging.py"
    assert not alive(root / "hanging.pids")  # neither the program nor what it has started apart from itself


def test_two_entry_points_are_bisected(server: Server, root: Path) -> None:
    """One of them prints; what it prints is no part of the protocol."""
    result = server.call(
        "bisect", good="broke.py:good", bad="broke.py:bad", steps=60, pictures=True, metric="broke:metric"
    )
    found = result.structured_content
    assert found["status"] == "completed" and found["outcome"] == "explained", result.content
    assert found["causes"][0]["ingredients"] == ["learning rate"] and found["causes"][0]["confirmed"]
    assert {row["ingredient"] for row in found["differences"]} == {"learning rate", "batch size"}
    assert found["good_value"] > 0.8 > found["bad_value"] and "from a program" in found["output"]
    assert [block.type for block in result.content] == ["text", "image"] and "learning rate" in result.content[0].text


def test_two_revisions_are_bisected(server: Server, root: Path) -> None:
    identity = ["-c", "user.name=a test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    text = (root / "broke.py").read_text()
    for command in (["init", "-q"], ["add", "broke.py"], ["commit", "-qm", "Learn"], ["commit", "-qam", "Break"]):
        subprocess.run(["git", *identity, *command], cwd=root, check=True)
        if command[-1] == "Learn":
            (root / "broke.py").write_text(text.replace("RATE = 5e-3", "RATE = 1e-8"))
    (root / "broke.py").write_text(text)
    call = {"good": "broke:good", "good_revision": "HEAD~1", "bad_revision": "HEAD", "steps": 60}
    found = server.run("bisect", **call)
    assert found["outcome"] == "explained" and found["causes"][0]["ingredients"] == ["learning rate"], found
    assert (root / "broke.py").read_text() == text
    crashed = server.run("bisect", **call | {"good": "broke:crash"})
    assert crashed["status"] == "crashed" and "ZeroDivisionError" in crashed["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"good": "broke:good"}, "not clear which two"),
        ({"good": "broke:good", "bad": "broke:bad", "good_revision": "HEAD"}, "not clear which two"),
        ({"good": "broke:good", "bad": "../secret.py:make_setup"}, "outside the root"),
        ({"good": "broke:good", "bad": "books/training.ipynb"}, "no such file"),
        ({"good": "broke:good", "good_revision": "a", "bad_revision": "b", "links": ["../secret.py"]}, "outside"),
    ],
)
def test_what_cannot_be_bisected_is_refused(server: Server, arguments: dict[str, Any], word: str) -> None:
    result = server.call("bisect", **arguments)
    assert result.is_error and word in result.content[0].text, result.content


def test_a_bisection_of_a_program_that_fails_is_a_result(server: Server, root: Path) -> None:
    crashed = server.run("bisect", good="crashing:make_setup", bad="broke:bad")
    assert crashed["status"] == "crashed" and crashed["error"]["type"] == "ZeroDivisionError"
    hung = server.run("bisect", good="broke:good", bad="hanging:make_setup", time_limit=20)
    assert hung["status"] == "timed out" and hung["error"]["place"]["file"] == "hanging.py"
    assert not alive(root / "hanging.pids")


def test_a_canceled_call_leaves_no_process(server: Server, root: Path) -> None:
    """The process of the program, and the one that the program started in a session of its own."""
    pids = root / "hanging.pids"
    pids.unlink(missing_ok=True)

    async def cancel() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: server.client.call_tool("diagnose", {"target": "hanging:make_setup"}))
            await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
            assert len(alive(pids)) == 2
            tasks.cancel_scope.cancel()

    server.portal.call(cancel)
    server.portal.call(until, lambda: not alive(pids))
    assert server.run("explain", check="dead-units")  # and the server goes on


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has to come; the test's own time limit is the end of patience."""
    while not condition():
        await anyio.sleep(0.1)


def alive(pids: Path) -> list[int]:
    """Return which of the processes that a file lists still run."""
    running = []
    for pid in map(int, pids.read_text().split()):
        if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            running.append(pid)
    return running


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("../secret.py:make_setup", "outside the root"),
        ("{beside}/secret.py:make_setup", "outside the root"),
        ("linked.py:make_setup", "outside the root"),
        ("folder/net.py:make_setup", "outside the root"),
        ("../secret.ipynb", "outside the root"),
        ("/etc/passwd.ipynb", "outside the root"),
        ("folder:make_setup", "no module"),
        ("linked_module:make_setup", "outside the root"),
        ("os:getcwd", "no module 'os' under the root"),
        ("secret:make_setup", "no module"),
        ("absent.ipynb", "no such file"),
        ("loud.train", "names no function"),
        ("loud.train:make setup", "no name of a function"),
        ("loud.train:absent", "absent"),
        ("shapes:make_setup", "no argument learning_rate"),
    ],
)
def test_what_may_not_or_cannot_be_run_is_refused(server: Server, root: Path, target: str, word: str) -> None:
    for name, goal in (("linked.py", root.parent / "secret.py"), ("linked_module.py", root.parent / "secret.py")):
        if not (root / name).is_symlink():
            (root / name).symlink_to(goal)
    if not (root / "folder").is_symlink():
        (root.parent / "beside").mkdir()
        (root.parent / "beside" / "net.py").write_text("")
        (root / "folder").symlink_to(root.parent / "beside")
    result = server.call("diagnose", target=target.format(beside=root.parent))
    text = result.content[0].text
    assert result.is_error and word in text and "What to do" in text, text


def test_a_recording_elsewhere_is_refused(server: Server, root: Path) -> None:
    (root.parent / "run.npz").write_bytes(b"PK")
    (root / "broken.npz").write_bytes(b"PK")
    assert "outside the root" in server.call("watch_report", recording="../run.npz").content[0].text
    assert "ends in '.py'" in server.call("watch_report", recording="crashing.py").content[0].text
    wrong = server.call("watch_report", recording="broken.npz")
    assert wrong.is_error and "broken.npz" in wrong.content[0].text
    assert server.call("verify", report="r99").is_error


def test_a_recording_is_judged(server: Server, root: Path) -> None:
    import torch

    torch.manual_seed(0)
    model, loss_fn = torch.nn.Linear(8, 2), torch.nn.CrossEntropyLoss()
    x = torch.randn(32, 8)
    loader, optimizer = [(x, (x[:, 0] > 0).long())], torch.optim.SGD(model.parameters(), lr=1e38)
    with nbdebug.watch(model, optimizer, show=False) as live:
        for _ in range(60):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    live.save(root / "run.npz")
    found = server.run("watch_report", recording="run.npz")
    assert {finding["check"] for finding in found["findings"]} == {f.check for f in live.report().findings}
    assert found["findings"] and found["report"] is None


def notebook(path: Path, *cells: str) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A training")])
    book.cells += [nbformat.v4.new_code_cell(source) for source in cells]
    path.parent.mkdir(exist_ok=True)
    nbformat.write(book, path)


MODEL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 4)
        self.last = nn.Softmax(dim=0)

    def forward(self, x):
        return self.last(self.first(x))

net = Net()"""


def test_a_notebook_is_run_until_the_names_exist(server: Server, root: Path) -> None:
    notebook(
        root / "books" / "training.ipynb",
        "%matplotlib inline\n!echo from the shell\nimport torch\nfrom torch import nn\ntorch.manual_seed(0)",
        MODEL,
        "x = torch.randn(64, 8)\nbatches = [(x, (x[:, 0] > 0).long())]\ndisplay('the data')",
        "raise RuntimeError('the training itself is not run')",
    )
    names = {"model": "net", "loader": "batches"}
    found = server.run("diagnose", target="books/training.ipynb", names=names, checks=["softmax-over-wrong-dim"])
    assert found["status"] == "completed" and "from the shell" in found["output"] and "the data" in found["output"]
    assert "The first 3 of 4 code cells of training.ipynb were run" in " ".join(found["notes"])
    (one,) = found["findings"]
    assert one["place"] == {"file": "training.ipynb", "line": 5, "text": "self.last = nn.Softmax(dim=0)", "cell": 2}
    failed = server.run("diagnose", target="books/training.ipynb", names={"model": "net", "loader": "later"})
    assert failed["status"] == "crashed" and failed["error"]["place"]["cell"] == 4
    (root / "books" / "broken.ipynb").write_text("no notebook")
    assert "cannot be read" in server.call("diagnose", target="books/broken.ipynb").content[0].text
    missing = server.call("diagnose", target="books/training.ipynb", cells=3)
    assert missing.is_error and "model: net" in missing.content[0].text and "loader: batches" in missing.content[0].text


def test_no_port_is_open_and_nothing_outlives_the_server(root: Path) -> None:
    """Even where the server is killed and cannot end its child."""
    pids = root / "hanging.pids"
    pids.unlink(missing_ok=True)
    command = [sys.executable, "-m", "nbdebug", "mcp", "--root", str(root)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.getcwd())
    assert process.stdin is not None and process.stdout is not None
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "0"}}
    call = {"name": "diagnose", "arguments": {"target": "hanging:make_setup"}}
    for message in (
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    ):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()
    assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "nbdebug"
    while not pids.exists() or not pids.read_text().strip():
        time.sleep(0.1)
    assert not [c for c in psutil.Process(process.pid).net_connections() if c.status == psutil.CONN_LISTEN]
    process.send_signal(signal.SIGKILL)
    process.wait()
    while alive(pids):
        time.sleep(0.1)
    process.stdin.close()
    process.stdout.close()


def test_the_snippets_of_the_page_start_this_command() -> None:
    """What a user pastes into the settings of a client is valid, and its options exist."""
    tomllib = pytest.importorskip("tomllib")  # since Python 3.11
    from nbdebug.__main__ import _parser

    page = (Path(__file__).parents[2] / "docs" / "assistants.md").read_text(encoding="utf-8")
    settings = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    settings += [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL)]
    assert len(settings) == 3
    for setting in settings:
        (servers,) = setting.values()
        assert servers["nbdebug"]["command"] == "python" and servers["nbdebug"]["args"][:2] == ["-m", "nbdebug"]
        assert _parser().parse_args(servers["nbdebug"]["args"][2:]).root
    for option in re.findall(r"^\| `(--[\w-]+)", page, re.MULTILINE):
        assert (
            option
            in _parser().format_help()
            + subprocess.run([sys.executable, "-m", "nbdebug", "mcp", "--help"], capture_output=True, text=True).stdout
        )
