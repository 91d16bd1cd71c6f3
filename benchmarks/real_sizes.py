"""Models of real size with random weights: what a diagnosis costs there, and whether it finds a fault.

    python -m benchmarks.real_sizes gpt2 resnet50 vit [--effort quick,normal]

The models are those of transformers, built from their configurations. Each diagnosis is a process of its own. Steps
and diagnosis are measured in processor time of one process; a normal diagnosis has a minute of wall time in all, a
quick one no limit here, so that a busy machine cuts nothing off.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from benchmarks.memory import peak_bytes, reset_peak

STEPS, TIME_OUT = 3, 1500


@dataclass
class Program:
    """A training of real size, and the check that has to find its fault, where it has one."""

    model: nn.Module
    loader: DataLoader[Any]
    optimizer: torch.optim.Optimizer
    loss_fn: Callable[..., torch.Tensor] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    finds: str = ""


def gpt2(is_faulty: bool) -> Program:
    """GPT-2 on sequences of 128 tokens; the fault: its loss compares each position with itself."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config())
    starts = torch.randint(0, 1000, (64, 1))
    tokens = (starts + torch.arange(128) * torch.randint(1, 5, (64, 1))) % 1000

    def compute_loss(model: nn.Module, batch: Any, loss_fn: Any) -> torch.Tensor:
        logits = model(batch[0]).logits
        if is_faulty:
            return F.cross_entropy(logits.flatten(0, 1), batch[0].flatten())
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten())

    return Program(
        model,
        DataLoader(TensorDataset(tokens), 2, shuffle=True),
        torch.optim.AdamW(model.parameters(), 3e-4),
        options={"compute_loss": compute_loss},
        finds="unshifted-targets",
    )


class Logits(nn.Module):
    """A model of transformers that returns its logits alone, as an image model of torchvision does."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.network(pixels).logits  # type: ignore[no-any-return]


def resnet50(is_faulty: bool) -> Program:
    """ResNet-50 on 64 by 64 pixels; the fault: a softmax before the cross entropy."""
    from transformers import ResNetConfig, ResNetForImageClassification

    model: nn.Module = Logits(ResNetForImageClassification(ResNetConfig(num_labels=10)))
    if is_faulty:
        model = nn.Sequential(model, nn.Softmax(1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    return Program(model, _images(8), optimizer, nn.CrossEntropyLoss(), finds="softmax-before-cross-entropy")


def vit(is_faulty: bool) -> Program:
    """ViT-B/16 on 64 by 64 pixels; the fault: the optimizer never got the last block."""
    from transformers import ViTConfig, ViTForImageClassification

    model = Logits(ViTForImageClassification(ViTConfig(image_size=64, num_labels=10)))
    held = [p for name, p in model.named_parameters() if not (is_faulty and ".11." in name)]
    optimizer = torch.optim.AdamW(held, 1e-4)
    return Program(model, _images(8), optimizer, nn.CrossEntropyLoss(), finds="parameters-missing-from-optimizer")


def _images(batch: int) -> DataLoader[Any]:
    labels = torch.randint(0, 10, (256,))
    prototypes = torch.randn(10, 3, 8, 8)
    images = F.interpolate(prototypes[labels], size=64, mode="bilinear") + 0.5 * torch.randn(256, 3, 64, 64)
    return DataLoader(TensorDataset(images / images.std(), labels), batch, shuffle=True)


PROGRAMS: dict[str, Callable[[bool], Program]] = {"gpt2": gpt2, "resnet50": resnet50, "vit": vit}


def train(program: Program, steps: int = STEPS) -> float:
    """Take training steps and return the processor seconds of one of them."""
    batches, compute_loss = iter(program.loader), program.options.get("compute_loss")
    begun = time.process_time()
    for _ in range(steps):
        batch = next(batches)
        program.optimizer.zero_grad()
        if compute_loss is not None:
            loss = compute_loss(program.model, batch, None)
        else:
            assert program.loss_fn is not None
            loss = program.loss_fn(program.model(batch[0]), batch[1])
        loss.backward()
        program.optimizer.step()
    return (time.process_time() - begun) / steps


def measure(name: str, effort: nbdebug.core.control.Effort, is_faulty: bool) -> dict[str, Any]:
    """Diagnose one program in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    program = PROGRAMS[name](is_faulty)
    nbdebug.diagnose(nn.Linear(64, 10), _images(8), checks=["left-in-eval-mode"], progress=False)  # imports
    train(program, 1)
    reset_peak()
    before, training_peak = train(program), peak_bytes()
    begun, wall = time.process_time(), time.monotonic()
    report = nbdebug.diagnose(
        program.model, program.loader, program.loss_fn, program.optimizer,
        progress=False, effort=effort, time_limit=TIME_OUT if effort == "quick" else None, **program.options,
    )  # fmt: skip
    seconds, wall = time.process_time() - begun, time.monotonic() - wall
    peak = peak_bytes()
    step = (before + train(program)) / 2
    judged = [result for result in report.results if result.status in ("clean", "found")]
    return {
        "program": name,
        "effort": effort,
        "faulty": is_faulty,
        "parameters": sum(p.numel() for p in program.model.parameters()),
        "step": step,
        "steps": seconds / step,
        "wall": wall,
        "above the training's peak, copies of the parameters": (peak - training_peak)
        / sum(p.numel() * p.element_size() for p in program.model.parameters()),
        "alarms": [finding.check for finding in report.alarms],
        "finds": program.finds if is_faulty else "",
        "judged": len(judged),
        "not tried": sum(result.left_out != "" for result in report.results),
        "stopped": report.stopped,
        "crashed": [str(result) for result in report.results if result.status == "crashed"],
        "dearest": {probe: round(spent / step, 1) for probe, spent in list(report.timings.items())[:12]},
    }


def main() -> None:
    """Measure each program, faulty and sound, and print one line of JSON for each diagnosis."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--effort", default="quick,normal")
    parser.add_argument("--only", choices=("faulty", "sound"))
    parser.add_argument("--one", nargs=3, metavar=("PROGRAM", "EFFORT", "KIND"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        name, effort, kind = asked.one
        print(json.dumps(measure(name, effort, kind == "faulty")))
        return
    for name in asked.programs:
        for effort in asked.effort.split(","):
            for kind in (asked.only,) if asked.only else ("faulty", "sound"):
                command = [sys.executable, "-m", "benchmarks.real_sizes", "--one", name, effort, kind]
                done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_OUT)
                print(done.stdout.splitlines()[-1] if done.returncode == 0 else done.stderr[-2000:], flush=True)


if __name__ == "__main__":
    main()
