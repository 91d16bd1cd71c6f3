"""The report of a watched training shows its curves, in every form."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import nn

import nbdebug


def test_curves_are_in_every_form(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(64, 4)
    with nbdebug.watch(model, optimizer) as live:
        for _ in range(30):
            optimizer.zero_grad()
            loss = (model(x) - x[:, :1]).square().mean()
            loss.backward()
            optimizer.step()
            live.log(loss=loss)
    report = live.report()
    titles = [curve.title for curve in report.curves]
    assert titles[0].startswith("Loss") and "Learning rate" in titles
    losses = report.curves[0].series[0][2]
    assert len(losses) == 30 and losses[-1] < losses[0]
    page = report.save(tmp_path / "run.html").read_text()
    assert "Recorded curves" in page and page.count("<figure") >= 2
    notebook = json.loads(report.save(tmp_path / "run.ipynb").read_text())
    pictures = [o for cell in notebook["cells"] for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
    assert len(pictures) >= 2
    assert nbdebug.load(report.save(tmp_path / "run.json")).curves == report.curves
