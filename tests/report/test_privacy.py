"""What leaves the machine: no value of a single sample unless it was asked for, through no form of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.lib.pretty import pretty
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import nbdebug
from nbdebug.charts import Images, Lines, Table
from nbdebug.core.finding import Finding, Result
from nbdebug.report import Report

ENDINGS = ("html", "ipynb", "json", "md", "sarif")
NAME = "JaneDoe4711"


def forms(report: Report, folder: Path, **options: Any) -> dict[str, str]:
    """Return every form in which a report leaves the machine, and what a notebook keeps of it."""
    saved = {e: report.save(folder / f"x.{e}", **options).read_text(encoding="utf-8") for e in ENDINGS}
    return saved | {"repr": repr(report), "pretty": pretty(report.findings), **report._repr_mimebundle_()}


def of(finding: Finding) -> Report:
    return Report([finding], [Result(finding.check, "found", (finding,))])


@pytest.mark.parametrize(
    "exhibit",
    [
        Table(("text", "label"), ((NAME, 1),), "Worst samples", samples=True),
        Lines(((NAME, (0.0, 1.0), (1.0, 2.0)),), "Labels", samples=True),
        Images((), (NAME,), "Pictures"),
    ],
    ids=["table", "lines", "captions"],
)
def test_exhibits_of_samples_are_left_out(tmp_path: Path, exhibit: Any) -> None:
    report = of(Finding("Some are wrong.", "loader", exhibit=exhibit, check="noisy-labels"))
    for form, text in forms(report, tmp_path).items():
        assert NAME not in text, form
    assert "Data samples are omitted" in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "Data samples are omitted" in (tmp_path / "x.ipynb").read_text(encoding="utf-8")
    assert NAME in report.save(tmp_path / "y.json", include_samples=True).read_text(encoding="utf-8")
    assert nbdebug.load(tmp_path / "x.json").findings[0].exhibit.is_left_out  # type: ignore[union-attr]


def test_what_is_not_of_samples_stays(tmp_path: Path) -> None:
    table = Table(("layer", "share"), (("head", 0.5),), "Layers")
    report = of(Finding("Dead.", "head", exhibit=table, check="dead-units"))
    assert "0.5" in report.save(tmp_path / "x.html").read_text(encoding="utf-8")
    assert not table.is_left_out and not Table(("layer",), ()).is_left_out


class Names(Dataset[Any]):
    """A column of numbers that holds a name."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((5,), float(NAME if index % 5 == 0 else index)), index % 2


def test_a_message_of_a_data_set_is_quoted_nowhere(tmp_path: Path) -> None:
    """The exception holds what could not be read; reasons, notes and findings of all checks are looked at."""
    loader = DataLoader(Names(), 16, shuffle=True)
    report = nbdebug.diagnose(nn.Linear(5, 2), loader, nn.CrossEntropyLoss(), quick=True, progress=False)
    assert NAME in report.findings[0].says  # on the user's own screen it is told
    for form, text in forms(report, tmp_path).items():
        assert NAME not in text, form
    assert NAME in report.save(tmp_path / "y.json", include_samples=True).read_text(encoding="utf-8")


def test_labels_in_their_order_are_samples(tmp_path: Path) -> None:
    target = (torch.arange(400.0)[:, None] + 0.123456).sort(0).values
    loader = DataLoader(TensorDataset(torch.randn(400, 5), target), 16)
    report = nbdebug.diagnose(nn.Linear(5, 1), loader, nn.MSELoss(), checks=["unshuffled-loader"], progress=False)
    assert report.findings
    assert ".12345" in str(report.to_dict())
    for form, text in forms(report, tmp_path).items():
        assert ".12345" not in text, form
