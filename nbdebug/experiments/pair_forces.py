"""Which pairs of representations a loss draws together, by the gradient at their similarity and exchanged samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import torch

from nbdebug.errors import NotApplicable
from nbdebug.experiments.axes import PRODUCTS
from nbdebug.experiments.tape import Tape, record
from nbdebug.experiments.tape.ops import Op, Use
from nbdebug.experiments.tape.walk import tensor_of
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch
from nbdebug.setup.nested import leaves, name_of

__all__ = ["MatrixForces", "matrix_forces", "triplet_forces"]

EXCHANGED = 4  # samples
VIEWS = 4  # rows that one sample may have: with more, samples mix
CHANGED = 1e-5  # of a row, relative to the largest entry
AGREED = 0.95  # of the triplets with a gradient
BATCHES = 8

_DISTANCES = ("cdist", "pairwise_distance")


@dataclass(frozen=True)
class MatrixForces:
    """For how many exchanged samples all their own pairs are pushed apart, and for how many others are drawn near."""

    samples: int
    apart: int
    others_near: int
    op: str


def matrix_forces(sandbox: Sandbox, tape: Tape) -> MatrixForces | None:
    """Return the forces in the first matrix of similarities that compares several representations of one sample."""
    batch = sandbox.batch()
    for index in tape.main.zone:
        op = tape.recording.ops[index]
        rows = _rows(tape, op)
        if rows is None or min(len(r) for r in rows) < batch.size or batch.size < 2 * EXCHANGED:
            continue
        found = _forces(sandbox, tape, op, batch, rows)
        if found is not None:
            return found
    return None


def _rows(tape: Tape, op: Op, of: Tape | None = None) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the representations that a matrix of similarities has one row, and one column, for each of."""
    recording = (of or tape).recording
    parts = [part for arg in op.args for part in (arg if isinstance(arg, (list, tuple)) else [arg])]
    uses = [part for part in parts if isinstance(part, Use)]
    if op.name not in (*PRODUCTS, *_DISTANCES, "cosine_similarity") or len(uses) != 2 or len(op.outputs) != 1:
        return None
    shape = tape.recording.values[op.outputs[0]].shape
    left, right = (tensor_of(recording, use) for use in uses)
    if len(shape) != 2 or min(shape) < 2 or left is None or right is None:
        return None
    if op.name == "cosine_similarity":
        left, right = (t.squeeze(d) if t.dim() == 3 and t.shape[d] == 1 else t for t, d in ((left, 1), (right, 0)))
    if left.dim() != 2 or right.dim() != 2:
        return None
    is_product = op.name in PRODUCTS and op.name != "einsum"
    right = right.T if is_product or right.shape[0] != shape[1] else right
    return (left, right) if (len(left), len(right)) == shape else None


def _forces(
    sandbox: Sandbox, tape: Tape, op: Op, batch: Batch, rows: tuple[torch.Tensor, torch.Tensor]
) -> MatrixForces | None:
    gradient = _even_gradient(tape, op.outputs[0])
    pull = gradient if op.name in _DISTANCES else -gradient
    strength = float(pull.abs().max())
    is_one = rows[0].shape == rows[1].shape and torch.equal(rows[0], rows[1])
    apart = near = counted = 0
    for sample in (1 + k * (batch.size - 1) // EXCHANGED for k in range(EXCHANGED)):
        sides = _changed(sandbox, tape, op, batch, sample, rows)
        if sides is None:
            return None
        pairs = [(i, j) for i in sides[0] for j in sides[1] if not (is_one and i == j)]
        if not pairs:
            return None
        counted += 1
        own = {(i, j) for i in sides[0] for j in sides[1]}
        others = [pull[i, j] for i in sides[0] for j in range(pull.shape[1]) if (i, j) not in own]
        apart += all(float(pull[pair]) < -1e-6 * strength for pair in pairs)
        near += any(float(other) > 1e-3 * strength for other in others)
    return MatrixForces(counted, apart, near, op.name)


def _even_gradient(tape: Tape, number: int) -> torch.Tensor:
    """Return the gradient where all similarities are the same: a pair that is near enough may be pushed apart."""
    given = tape.recording.values[number].tensor
    if given is None:
        raise NotApplicable("the similarities are not kept")
    even = torch.full_like(given.detach(), float(given.detach().mean())).requires_grad_()
    with torch.enable_grad():
        (found,) = torch.autograd.grad(tape.replay(exchange={number: even}), even)
    return found.double()


def _changed(
    sandbox: Sandbox, tape: Tape, op: Op, batch: Batch, sample: int, rows: tuple[torch.Tensor, torch.Tensor]
) -> tuple[list[int], list[int]] | None:
    """Return the rows of both sides that are made of this sample; None where others change with it."""
    order = torch.arange(batch.size)
    order[sample] = (sample + batch.size // 2) % batch.size
    again = record(sandbox, batch.select(order), step=tape.is_step, seed=tape.seed, hold_modes=True)
    names = [[one.name for one in t.recording.ops[: op.index + 1]] for t in (tape, again)]
    other = _rows(tape, op, again) if names[0] == names[1] else None
    if other is None:
        return None
    sides = []
    for before, after in zip(rows, other, strict=True):
        moved = (before - after).abs().amax(1) > CHANGED * float(before.abs().max())
        sides.append(moved.nonzero().flatten().tolist())
    return (sides[0], sides[1]) if all(0 < len(side) <= VIEWS for side in sides) else None


def triplet_forces(sandbox: Sandbox, tape: Tape) -> tuple[str, str, float, int] | None:
    """Return the pair that the loss draws together, the one that it pushes apart, and how their inputs compare."""
    names = [_entry(tape, head) for head in tape.main.heads]
    if len(names) != 3 or len(set(names)) != 3 or "" in names:
        return None
    heads = {name: tape.tensor(head).value.double() for name, head in zip(names, tape.main.heads, strict=True)}
    if len({tuple(value.shape) for value in heads.values()}) != 1 or next(iter(heads.values())).dim() != 2:
        return None
    gradients = {n: tape.gradient(head).double() for n, head in zip(names, tape.main.heads, strict=True)}
    pulled = pushed = None
    for one, other in combinations(names, 2):
        force = ((heads[one] - heads[other]) * (gradients[one] - gradients[other])).sum(1)
        felt = force[force.abs() > 1e-6 * force.abs().max()]
        if len(felt) >= 4 and float((felt > 0).double().mean()) >= AGREED:
            pulled = (one, other)
        elif len(felt) >= 4 and float((felt < 0).double().mean()) >= AGREED:
            pushed = (one, other)
    if pulled is None or pushed is None:
        return None
    apart = [_distances(batch, pulled) - _distances(batch, pushed) for batch in sandbox.batches(BATCHES)]
    found = torch.cat(apart)
    error = float(found.std()) / math.sqrt(len(found))
    return " and ".join(pulled), " and ".join(pushed), float(found.mean()) / max(error, 1e-12), len(found)


def _entry(tape: Tape, number: int) -> str:
    """Return the one entry of the batch that a representation is made of; empty where there are several."""
    sources = tape.recording.values[number].sources
    return next(iter(sources)) if len(sources) == 1 else ""


def _distances(batch: Batch, pair: tuple[str, str]) -> torch.Tensor:
    found = {name_of(path): leaf for path, leaf in leaves(batch.raw) if isinstance(leaf, torch.Tensor)}
    one, other = (found[name] for name in pair)
    if not one.is_floating_point() or one.shape != other.shape:
        raise NotApplicable("the inputs of the triplets are no numbers that can be compared")
    distances: torch.Tensor = (one - other).double().flatten(1).norm(dim=1)
    return distances
