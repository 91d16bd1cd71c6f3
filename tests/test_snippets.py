"""Every snippet of README and of the pages in docs/ runs, those of a page in their order and in one namespace.

The pages speak of `model`, `loader` and so on without making them; `PRELUDE` does, small enough to be quick. The pages
of the checks have a test of their own (`test_check_examples.py`).
"""

from __future__ import annotations

import ast
import re
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import nbdebug

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONAL = {
    "lightning",
    "pytorch_lightning",
    "transformers",
    "keras",
    "fastai",
    "tensorboard",
}  # extras that the tests do without
PARTS = {"CONTRIBUTING.md"}  # pieces of files, which are read and not run; `make new-check` writes what is run
SLOW = {"improve.md"}  # it trains many models
SHARDED = {"distributed.md"}  # one process stands for the ranks that torchrun starts
PRELUDE = """
import nbdebug, pandas as pd, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tests.zoo.tabular import digit_rows

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.Linear(32, 32)
    def forward(self, x):
        return x + self.attention(x)

class Positions(nn.Module):
    def forward(self, x):
        return torch.arange(x.shape[1])

class Network(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.positions, self.gate = Positions(), nn.Sigmoid()
        middle = Block() if width == 32 else nn.ReLU()
        self.encoder = nn.Sequential(nn.Linear(64, width), middle, nn.ReLU(), nn.Linear(width, 16))
        self.head = nn.Linear(16, 10)
    def forward(self, x):
        self.positions(x)
        hidden = self.encoder(x)
        return self.head(hidden * self.gate(hidden))

torch.manual_seed(0)
rows, labels = digit_rows()
def part(start, end):
    return DataLoader(TensorDataset(rows[start:end], labels[start:end]), 32, shuffle=True)
model, reference = Network(), Network()
loader = train_loader = part(0, 320)
val_loader, test_loader, shifted_loader, train_val_loader = (part(320 + 160 * i, 480 + 160 * i) for i in range(4))
batch = next(iter(loader))
x_fixed = batch[0]
loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), 1e-3)
names = [str(digit) for digit in range(10)]
frame = pd.DataFrame({"ink": ["much" if row.mean() > 0.3 else "little" for row, _ in val_loader.dataset]})
with nbdebug.watch(model, optimizer) as live:
    loss = loss_fn(model(x_fixed), batch[1])
    loss.backward()
    optimizer.step()

def train_one_epoch():
    for x, y in loader:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

def make_setup(learning_rate, width):
    network = Network(width)
    return {"model": network, "loader": loader, "val_loader": val_loader, "loss_fn": loss_fn,
            "optimizer": torch.optim.Adam(network.parameters(), learning_rate)}

good = lambda: make_setup(0.003, 16)
bad = lambda: make_setup(1e-8, 16)

def display(thing):
    return thing

def function(*given):
    return given
"""


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the code of a page in these languages."""
    text = re.sub(r"<!-- example -->.*?```\n\n", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)  # test_docs.py
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(code) for _, language, code in found if language in languages]


def cases(pages: list[Path]) -> list[Any]:
    return [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.name in SLOW)) for p in pages]


@contextmanager
def one_rank() -> Iterator[dict[str, Any]]:
    """Make this process the only rank of a group; yield what a sharded script imports."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    store = dist.HashStore()  # type: ignore[attr-defined]  # public, but torch's stubs do not export it
    is_new = not dist.is_initialized()  # other tests of this process may have made it their only rank already
    if is_new:
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield {"fully_shard": fully_shard}
    finally:
        if is_new:
            dist.destroy_process_group()


@pytest.mark.parametrize("page", cases([p for p in PAGES if blocks(p, "python") and p.name not in PARTS]))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbdebug.core.registry import registry

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "checks", dict(registry.load().checks))  # what a snippet registers goes with it
    ranks: AbstractContextManager[dict[str, Any]] = one_rank() if page.name in SHARDED else nullcontext({})
    with ranks as known:
        run_snippets(page, known)


def run_snippets(page: Path, known: dict[str, Any]) -> None:
    """Run the snippets of one page in their order, in one namespace."""
    exec(PRELUDE, known)
    ran = 0
    for code in blocks(page, "python"):
        absent = False  # whether something optional could not be imported, so that its name is not there
        for statement in ast.parse(code).body:
            try:
                exec(compile(ast.Module([statement], []), f"<{page.name}>", "exec"), known)
                ran += 1
            except (ModuleNotFoundError, nbdebug.BadInput) as error:
                missing = re.search(r"No module named '(\w+)|(\w+) is not installed", str(error))
                if missing is None or not OPTIONAL & set(missing.groups()):
                    raise
                absent = True
            except NameError:
                if not absent:
                    raise
    assert ran


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python", "bash", "json")], ids=lambda p: p.stem)
def test_snippets_are_code(page: Path) -> None:
    """What is not run can at least be read: python is python, a command exists, as far as that can be told."""
    for code in blocks(page, "python"):
        ast.parse(code)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for code in blocks(page, "bash"):
        assert subprocess.run(["bash", "-n"], input=code, text=True, capture_output=True).returncode == 0, code
        assert set(re.findall(r"\bmake ([a-z-]+)", code)) <= targets, code
