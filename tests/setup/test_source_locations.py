"""From a place in a model to the line that made it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import torch
from torch import nn

import nbdebug
from nbdebug.setup.source_locations import places_of


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.mix: nn.Module = nn.Linear(3, 3)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), Inner()
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(3, 2), nn.Softmax(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.second.mix(self.first(x)))


class Heir(Outer):
    pass


def test_finds_the_assignment() -> None:
    wheres = ["first.weight", "second.mix", "second.scale", "head.2", "column 3", "", "samples[4]"]
    places = places_of(Heir(), wheres)
    lines = Path(__file__).read_text().splitlines()
    assert {where: place.text for where, place in places.items()} == {
        "first.weight": "self.first, self.second = nn.Linear(4, 3), Inner()",
        "second.mix": "self.mix: nn.Module = nn.Linear(3, 3)",
        "second.scale": "self.scale = nn.Parameter(torch.ones(3))",
        "head.2": "self.head = nn.Sequential(nn.ReLU(), nn.Linear(3, 2), nn.Softmax(1))",
    }
    assert all(lines[place.line - 1].strip() == place.text for place in places.values())
    assert {Path(place.file).name for place in places.values()} == {Path(__file__).name}


def test_code_of_others_is_no_place() -> None:
    encoder = nn.TransformerEncoderLayer(8, 2)
    assert places_of(encoder, ["self_attn", "linear1"]) == {}


def test_source_that_is_gone() -> None:
    names: dict[str, type[nn.Module]] = {}
    code = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__(); self.one = nn.Linear(1, 1)\n"
    exec(code, {"nn": nn}, names)
    assert places_of(names["Net"](), ["one"]) == {}


def test_every_form_names_the_line(tmp_path: Path) -> None:
    batch = (torch.randn(32, 4), torch.randint(0, 2, (32,)))
    report = nbdebug.diagnose(Outer(), [batch], checks=["softmax-before-cross-entropy"], progress=False)
    place = report.places[report.findings[0].where]
    assert place.text.startswith("self.head = ")
    assert f"line {place.line}" in str(report)
    for ending in ("html", "md", "ipynb"):
        assert f"line {place.line}" in report.save(tmp_path / f"report.{ending}").read_text()
    assert nbdebug.load(report.save(tmp_path / "report.json")).places.keys() == report.places.keys()
    log = json.loads(report.save(tmp_path / "report.sarif").read_text())
    physical = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert physical["region"]["startLine"] == place.line and physical["artifactLocation"]["uri"] == place.file


def test_in_a_kernel() -> None:
    import nbformat
    from nbclient import NotebookClient

    cell = textwrap.dedent("""\
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
        from nbdebug.setup.source_locations import places_of
        place = places_of(Net(), ["fc"])["fc"]
        print(place, place.cell, place.in_notebook)""")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    NotebookClient(notebook, timeout=120).execute()
    assert notebook.cells[0].outputs[0].text.strip() == "cell [1], line 6 1 True"
