"""The same statistics written by hand for one plain model, as a lower bound for `benchmarks.watch_overhead`.

It knows what a recorder has to find out: that all is float32 on the CPU, that nothing is written in place, that each
module is called once, that every step has one backward pass and nobody clips. It keeps no history and shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

LINE, TOGETHER = 16, 16  # neighboring elements; steps that are reduced at a time


def lines(tensor: torch.Tensor, wanted: int) -> np.ndarray:
    """Look at some lines of a tensor."""
    flat = tensor.detach().numpy().reshape(-1)
    spacing = max(flat.size * LINE // wanted, LINE)
    count = flat.size // spacing
    return flat[: count * spacing].reshape(count, spacing)[:, :LINE] if count else flat.reshape(1, -1)[:, :LINE]


def reduced(rows: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return mean, standard deviation, largest value, share of zeros and a histogram of exponents."""
    table = np.stack(rows)
    counts = np.bincount((rows[-1].view(np.uint32) >> 23).reshape(-1), minlength=512)
    return table.mean(1), table.std(1), np.abs(table).max(1), (table == 0).mean(1), counts


@contextmanager
def by_hand(model: nn.Module, optimizer: Any) -> Iterator[None]:
    """Measure every layer, gradient and weight at every step."""
    layers = [module for module in model.modules() if not list(module.children())]
    wanted = max(128, min(2048, 32_768 // len(layers)))
    parameters = list(model.parameters())
    outputs: list[Any] = [None] * len(layers)
    kept: list[np.ndarray] = []
    before: list[np.ndarray] = []

    def keep(place: int) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            outputs[place] = output

        return hook

    def sampled(*_: Any) -> None:
        given = [o for o in outputs if isinstance(o, torch.Tensor) and o.is_contiguous()]
        kept.append(np.concatenate([lines(o, wanted) for o in given if o.numel() >= LINE]))
        outputs[:] = [None] * len(layers)

    def norms(*_: Any) -> None:
        memory = [p.grad.numpy() for p in parameters if p.grad is not None]
        np.sqrt([np.vdot(m, m) for m in memory])
        before.append(np.concatenate([lines(p, wanted) for p in parameters if p.numel() >= LINE]))

    def changes(*_: Any) -> None:
        after = np.concatenate([lines(p, wanted) for p in parameters if p.numel() >= LINE])
        np.linalg.norm(after - before.pop())
        if len(kept) == TOGETHER:
            reduced(kept)
            kept.clear()

    handles = [layer.register_forward_hook(keep(place)) for place, layer in enumerate(layers)]
    handles += [model.register_forward_hook(sampled), optimizer.register_step_pre_hook(norms)]
    handles.append(optimizer.register_step_post_hook(changes))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
