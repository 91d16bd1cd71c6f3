"""The pictures of `benchmarks.growth`: steps and memory over each size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

MARKS = {"quick": ("o", "#1f77b4"), "normal": ("s", "#d95f02"), "thorough": ("^", "#7570b3")}
QUICK_AT_MOST = 40  # training steps
MIB = 2**20


def draw(rows: Sequence[dict[str, Any]], titles: dict[str, str], folder: Path) -> None:
    """Write one picture for each axis that was measured."""
    plt.rcParams["svg.hashsalt"] = "growth"  # the same figures give the same file
    for axis, title in titles.items():
        found = sorted((row for row in rows if row["axis"] == axis), key=lambda row: row["size"])
        if found:
            _one(found, title, folder / f"growth-{axis}.svg")


def _one(rows: Sequence[dict[str, Any]], title: str, path: Path) -> None:
    figure, (cost, memory) = plt.subplots(1, 2, figsize=(9, 3.4))
    for effort, (mark, color) in MARKS.items():
        mine = [row for row in rows if row["effort"] == effort]
        if mine:
            sizes = [row["size"] for row in mine]
            style: dict[str, Any] = {"marker": mark, "color": color, "label": effort}
            cost.plot(sizes, [row["steps"] for row in mine], **style)
            memory.plot(sizes, [(row["peak"] - row["training peak"]) / MIB for row in mine], **style)
    two_copies = [(row["size"], 2 * row["parameter bytes"] / MIB) for row in rows if row["effort"] == "quick"]
    cost.axhline(QUICK_AT_MOST, color="gray", linestyle=":", label=f"{QUICK_AT_MOST} steps")
    memory.plot(*zip(*two_copies, strict=True), color="gray", linestyle=":", label="two copies of the parameters")
    cost.set(xscale="log", yscale="log", xlabel=title, ylabel="training steps' worth")
    memory.set(xscale="log", yscale="symlog", xlabel=title, ylabel="MiB above the training's peak")
    memory.set_yscale("symlog", linthresh=10)
    for axes in (cost, memory):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
