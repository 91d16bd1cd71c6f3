"""Use the main parts once, in whatever environment this is run: smoke.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug


def main(folder: Path) -> None:
    """Diagnose a network with a softmax too many, write each kind of report, and make a wizard."""
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(256, 8), torch.randint(0, 3, (256,))), 32, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    report = nbdebug.diagnose(
        model, loader, nn.CrossEntropyLoss(), optimizer, effort="quick", time_limit=600, progress=False
    )
    crashed = [str(result) for result in report.results if result.status == "crashed"]
    found = [finding.check for finding in report.alarms]
    if crashed or "softmax-before-cross-entropy" not in found:
        raise SystemExit(f"found {found}, crashed {crashed}")
    for suffix in ("html", "ipynb", "json", "md"):
        report.save(folder / f"report.{suffix}")
    nbdebug.wizard(model, loader)
    print("The diagnosis found its bug, and reports and the wizard were made.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
