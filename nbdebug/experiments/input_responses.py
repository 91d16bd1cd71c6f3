"""Whether outputs and loss respond to a change of the inputs, over several batches and in both modes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from nbdebug.core.control import Control
from nbdebug.errors import NotApplicable
from nbdebug.experiments.batch_dim import relative_change
from nbdebug.experiments.locate_module import SEED
from nbdebug.experiments.sample_exchange import runnable, runs, samples_of, several_batches
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import tensors_in
from nbdebug.setup.sample_dataset import seed_all
from nbdebug.setup.user_code import user_code

__all__ = ["InputResponses", "is_real"]

BATCHES = 3
SAMPLES = 32
PASSES = ((False, 0), (True, 0), (True, 1), (True, 2))  # mode and random draw: training may flip coins about its inputs
Outputs = list[torch.Tensor]


class InputResponses:
    """The copy with some batches and what it gives for them, so that variants can be compared."""

    def __init__(self, sandbox: Sandbox, control: Control) -> None:
        self.sandbox, self.control = sandbox, control
        drawn = [samples_of(sandbox, batch) for batch in several_batches(sandbox, BATCHES) if runs(sandbox.run, batch)]
        self.batches = [runnable(samples, SAMPLES, sandbox.run) for samples in drawn if samples.count > 1]
        if not self.batches:
            raise NotApplicable("a batch of one sample cannot be permuted")
        self._buffers = [(buffer, buffer.clone()) for buffer in sandbox.model.buffers()]
        self._known: dict[tuple[int, int, bool], tuple[Outputs, float]] = {}
        self._passes = [(training, draw) for training, draw in PASSES if self._runs(training)]
        if not self._passes:
            raise NotApplicable("the model does not run on part of its batch")

    def _runs(self, training: bool) -> bool:
        """Whether there is a loss in this mode; some models give something else in eval mode."""
        return runs(lambda batch: self._run(batch, training, 0), self.batches[0].batch)

    @property
    def names(self) -> list[str]:
        """The inputs that have the samples' dimension in every batch."""
        return [
            name
            for name in self.batches[0].batch.inputs
            if all(name in s.batch.inputs and s.holds(s.batch.inputs[name]) for s in self.batches)
        ]

    def stacked(self, name: str) -> list[torch.Tensor]:
        """Return one input of all batches, the samples first."""
        return [s.batch.inputs[name].movedim(s.axis, 0) for s in self.batches]

    def varies(self, name: str) -> bool:
        """Whether the samples differ in this input."""
        return any(not torch.equal(t, t.roll(1, 0)) for t in self.stacked(name))

    def responds(self, change: Callable[[str, torch.Tensor], torch.Tensor]) -> bool:
        """Whether outputs or loss change with this change of the inputs, in any batch and either mode."""
        for training, draw in self._passes:
            for index, samples in enumerate(self.batches):
                self.control.poll()
                reference, noise = self._reference(index, draw, training)
                with user_code() as tried:
                    outputs = self._run(samples.map(change), training, 10 * draw + index)
                if tried.failure or _distance(reference, outputs) > 10 * noise:  # an error is a response
                    return True
        return False

    def gradients(self, name: str) -> list[torch.Tensor] | None:
        """Return the absolute gradient of everything by this input for each batch; None where there is none."""
        found = []
        for training, draw in self._passes:
            for index, samples in enumerate(self.batches):
                held = samples.batch.map_inputs(lambda n, t: t.detach().requires_grad_(n == name and is_real(t)))
                try:
                    with user_code() as tried:
                        total = sum(
                            (t * torch.randn_like(t)).sum() for t in self._run(held, training, 10 * draw + index, True)
                        )
                        (gradient,) = torch.autograd.grad(total, [held.inputs[name]], allow_unused=True)  # type: ignore[arg-type]
                finally:
                    self._restore()
                if tried.failure:
                    return None
                empty = torch.zeros_like(held.inputs[name])
                found.append((gradient if gradient is not None else empty).abs().movedim(samples.axis, 0))
        return found

    def _reference(self, index: int, draw: int, training: bool) -> tuple[Outputs, float]:
        if (index, draw, training) not in self._known:
            batch, seed = self.batches[index].batch, 10 * draw + index
            first, again = self._run(batch, training, seed), self._run(batch, training, seed)
            self._known[index, draw, training] = first, _distance(first, again)
        return self._known[index, draw, training]

    def _run(self, batch: Batch, training: bool, seed: int, graph: bool = False) -> Outputs:
        """Run model and loss with the given random state; without a graph, running statistics are restored at once."""
        seed_all(SEED + seed)
        with self.sandbox.mode(training), torch.set_grad_enabled(graph):
            outcome = self.sandbox.run(batch)
        if not graph:
            self._restore()
        return [t for t in tensors_in((outcome.output, outcome.loss)) if is_real(t)]

    @torch.no_grad()
    def _restore(self) -> None:
        for buffer, before in self._buffers:
            buffer.copy_(before)


def _distance(reference: Outputs, outputs: Outputs) -> float:
    if [t.shape for t in reference] != [t.shape for t in outputs]:
        return float("inf")
    return max((relative_change(a, b) for a, b in zip(reference, outputs, strict=True)), default=0.0)


def is_real(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds real numbers in a dense layout."""
    return tensor.is_floating_point() and tensor.layout is torch.strided
