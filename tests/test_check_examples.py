"""The examples on the pages of the checks, run as a reader would run them: the ill code is found, the cured is not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.core.registry import registry
from nbdebug.watch.judging import judged
from nbdebug.watch.saving import load
from tests.examples import all_failing_examples, all_recorded
from tests.setup.distributed.torchrun import torchrun

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from check_examples import Example, examples

EXAMPLES = examples()
# Every eighth is quick enough for every run; that the ill code is found is asked of every failing example elsewhere.
CASES = [
    pytest.param(example, id=check, marks=[pytest.mark.slow] * (index % 8 > 0))
    for index, (check, example) in enumerate(sorted(EXAMPLES.items()))
    if example.kind != "ranks"
]
ON_RANKS = sorted(check for check, example in EXAMPLES.items() if example.kind == "ranks")


def test_every_check_has_an_example() -> None:
    assert set(EXAMPLES) == set(registry.load().checks)
    assert {failing_example.check for failing_example in (*all_failing_examples(), *all_recorded())} == set(EXAMPLES)
    assert len(ON_RANKS) == 5


def found_by(check: str, setup: dict[str, Any]) -> list[nbdebug.Finding]:
    """Ask the check alone, or judge the training that was recorded."""
    if "recording" in setup:
        report = judged(setup["recording"])
    else:
        report = nbdebug.diagnose(**setup, checks=[check], progress=False)
    result = report.result(check)
    assert result.status != "crashed", result
    return list(result.findings)


@pytest.mark.parametrize("example", CASES)
def test_the_ill_is_found_and_the_cured_is_not(example: Example) -> None:
    """The three blocks of a page are run in their order, in one namespace; a cure may leave a note, but no alarm."""
    known: dict[str, Any] = {"__name__": "__main__"}  # as in a notebook: where else is told apart from builtins
    exec(example.helpers, known)
    exec(example.bad, known)
    torch.manual_seed(0)
    ill = found_by(example.check, known[example.name]())
    assert ill
    exec(example.good, known)
    torch.manual_seed(0)
    assert_cured(ill, found_by(example.check, known[example.name]()))


def assert_cured(ill: list[nbdebug.Finding], cured: list[nbdebug.Finding]) -> None:
    assert not [finding for finding in cured if finding.severity in {one.severity for one in ill}], cured


PLAY = """
from pathlib import Path
for check, (name, *blocks) in examples.items():
    known = {}
    for form, code in zip(("helpers", "ill", "cured"), blocks):
        exec(code, known)
        if form != "helpers":
            torch.manual_seed(0)
            recording = known[name]()["recording"]
            if rank == 0:
                save(recording, Path(sys.argv[1]) / f"{check}-{form}.npz")
            dist.barrier()
tell(done=True)
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the examples of several processes, ill and cured, under one torchrun."""
    folder = tmp_path_factory.mktemp("ranks")
    shown = {check: EXAMPLES[check] for check in ON_RANKS}
    blocks = {check: (one.name, one.helpers, one.bad, one.good) for check, one in shown.items()}
    torchrun(folder, f"examples = {blocks!r}\n{PLAY}")
    return folder


@pytest.mark.parametrize("check", ON_RANKS)
@pytest.mark.xdist_group("rank-examples")
def test_the_ill_is_found_and_the_cured_is_not_on_two_ranks(check: str, played: Path) -> None:
    ill = found_by(check, {"recording": load(played / f"{check}-ill.npz")})
    assert ill
    assert_cured(ill, found_by(check, {"recording": load(played / f"{check}-cured.npz")}))
