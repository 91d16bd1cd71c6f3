"""Read the same images and targets again and again: does an augmentation move both by the same draw?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from nbdebug.core.control import Control
from nbdebug.core.registry import probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.repeated_reads import Rereading
from nbdebug.experiments.coordinates import readings
from nbdebug.experiments.registration import TURNS, UNMOVED, Move, in_place, registered
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loss import main_output
from nbdebug.setup.sample_dataset import fresh_reader
from nbdebug.setup.user_code import user_code

__all__ = ["JointDraws", "joint_draws"]

SAMPLES, DRAWS = 24, 4
SMALLEST, LARGEST = 8, 64  # pixels; larger images are reduced
SURE = 0.7  # correlation of two draws after the best move; below it they are not the same picture moved
APART = 0.3  # of correlation, that another move must be worse
SENSITIVE = 0.5  # of the gain by places, that a turn must change of it
FAR = 0.05  # of the width, by which a shift is more than rounding
KINDS = 12  # classes of a dense target that are compared
EQUAL = 1e-4  # of the range of the targets
FEWEST = 4  # pairs whose targets are mirrored by the same sum, that are no coincidence


@dataclass(frozen=True)
class JointDraws:
    """How images and targets of the same samples moved between draws.

    `pairs` counts the pairs of draws of which both moves are known, `apart` those where they differ, in `samples`
    samples; `image_moves` and `target_moves` are the commonest of these. `placed` is the z-score by which images show
    more at the coordinates of their targets than at those of others; None where the target is dense, or where it alone
    moves, which needs no such evidence.
    """

    target: str
    is_dense: bool
    pairs: int
    apart: int
    samples: int
    image_moves: str = ""
    target_moves: str = ""
    reading: str = ""
    placed: float | None = None


Draw = tuple[torch.Tensor, torch.Tensor]


@probe(quick=False)
def joint_draws(setup: Setup, sandbox: Sandbox, rereading: Rereading, control: Control) -> JointDraws:
    """Register draws of the same images with each other, and compare how their targets moved."""
    if not rereading.random and not rereading.target_random:
        raise NotApplicable("reading a sample again returns the same values: there is no random augmentation")
    reader = fresh_reader(setup.feed, setup.wrap)
    assert reader is not None  # it was there for the rereading
    name, is_dense = _target(sandbox)
    total = min(setup.feed.total or 0, 1_000_000)
    order = torch.randperm(total, generator=torch.Generator().manual_seed(0))[:SAMPLES].tolist()
    draws: list[list[Draw]] = []
    for number, index in enumerate(control.as_many(order)):
        control.progress(number / len(order), "loading augmented samples")
        read = [_pair(reader.read(index, 1 + seed), name) for seed in range(DRAWS)]
        if all(pair is not None and pair[0].shape == read[0][0].shape for pair in read):  # type: ignore[index]
            draws.append([pair for pair in read if pair is not None])
    if not draws:
        raise NotApplicable("images of one sample have different sizes")
    return _dense(name, draws) if is_dense else _coordinates(name, draws)


def _target(sandbox: Sandbox) -> tuple[str, bool]:
    """Return the target that the model's own output is compared with: of an image's size, or a few numbers."""
    batch = sandbox.batch()
    image, output = _image(batch), None
    with user_code(passing=()), sandbox.mode(training=False), torch.no_grad():
        output = main_output(sandbox.forward(batch))
    if image is None or output is None:
        raise NotApplicable("the model maps no images to one output")
    for name, target in batch.targets.items():
        if target.dim() >= 3 and target.shape[-2:] == image.shape[-2:] == output.shape[-2:]:
            return name, True
        numbers = target.is_floating_point() and 2 <= target[0].numel() <= 64 and target[0].numel() % 2 == 0
        if numbers and target.dim() <= 3 and output.numel() == target.numel():
            return name, False
    raise NotApplicable("no target has the height and width of the images, or could hold coordinates")


def _image(batch: Batch) -> torch.Tensor | None:
    for image in batch.inputs.values():
        if image.dim() == 4 and image.is_floating_point() and min(image.shape[-2:]) >= SMALLEST:
            return image
    return None


def _pair(batch: Batch, name: str) -> Draw | None:
    image, target = _image(batch), batch.targets.get(name)
    return (
        (image[0].detach().float().cpu(), target[0].detach().cpu())
        if image is not None and target is not None
        else None
    )


def _dense(name: str, draws: list[list[Draw]]) -> JointDraws:
    moves, samples, pairs = Counter[tuple[str, str]](), set[int](), 0
    for sample, (first, *others) in enumerate(draws):
        for draw in others:
            image = registered(_reduced(first[0]), _reduced(draw[0]))
            target = registered(*_planes(first[1], draw[1]))
            (one, fit), (other, own) = image.best, target.best
            if min(fit, own) < SURE:
                continue
            pairs += 1
            if min(fit - image.at(other), own - target.at(one)) > APART:
                moves[one.text.split(" by ")[0], other.text.split(" by ")[0]] += 1
                samples.add(sample)
    common = moves.most_common(1)[0][0] if moves else ("", "")
    return JointDraws(name, True, pairs, moves.total(), len(samples), *common)


def _reduced(picture: torch.Tensor) -> torch.Tensor:
    scale = max(1, max(picture.shape[-2:]) // LARGEST)
    return F.avg_pool2d(picture[:4], scale) if scale > 1 else picture[:4]


def _planes(one: torch.Tensor, other: torch.Tensor) -> Draw:
    """Return both targets as pictures: their values, or one map for each of the commonest classes."""
    height, width = one.shape[-2:]
    one, other = (t.reshape(-1, height, width) for t in (one, other))
    labels, counts = torch.cat([one.flatten(), other.flatten()]).unique(return_counts=True)
    if one.is_floating_point() and len(labels) > KINDS:
        return _reduced(one.float()), _reduced(other.float())
    common = labels[counts.argsort(descending=True)][:KINDS]
    maps = [torch.stack([(t == label).float().amax(0) for label in common]) for t in (one, other)]
    scale = max(1, max(height, width) // LARGEST)
    return F.avg_pool2d(maps[0], scale), F.avg_pool2d(maps[1], scale)


def _coordinates(name: str, draws: list[list[Draw]]) -> JointDraws:
    scale = float(torch.stack([target for sample in draws for _, target in sample]).double().std().clamp(min=1e-9))
    followed, still, alone = 0, list[tuple[int, Move]](), list[tuple[int, torch.Tensor, torch.Tensor]]()
    for sample, (first, *others) in enumerate(draws):
        for draw in others:
            move = _sure(_reduced(first[0]), _reduced(draw[0]))
            if move is None:
                continue
            equal = bool(((first[1] - draw[1]).abs() <= EQUAL * scale).all())
            if move.text == UNMOVED and not equal:
                alone.append((sample, first[1].flatten().double(), draw[1].flatten().double()))
            elif move.text != UNMOVED:
                still += [(sample, move)] * equal
                followed += not equal
    pairs = followed + len(still) + len(alone)
    if _is_mirrored(alone, scale):
        samples = len({sample for sample, *_ in alone})
        return JointDraws(name, False, pairs, len(alone), samples, UNMOVED, "mirrored")
    if not still or followed:
        return JointDraws(name, False, pairs, 0, 0)
    reading, placed = _placed(draws, [move for _, move in still])
    common = Counter(move.text.split(" by ")[0] for _, move in still).most_common(1)[0][0]
    samples = len({sample for sample, _ in still})
    return JointDraws(name, False, pairs, len(still), samples, common, UNMOVED, reading, placed)


def _placed(draws: list[list[Draw]], moves: list[Move]) -> tuple[str, float]:
    """Return what the targets mean as coordinates, and how surely, whichever of the draws they belong to."""
    images, targets = (torch.stack([sample[0][part] for sample in draws]) for part in (0, 1))
    turned = [move.turn for move in moves if move.turn != UNMOVED]
    if turned:
        turn = TURNS[Counter(turned).most_common(1)[0][0]]
        best = next((r for r in readings(images, targets, turn) if r.sensitive > SENSITIVE), None)
    else:
        reach = 2 * max(max(abs(move.down), abs(move.right)) for move in moves) + 1
        best = next(
            iter(readings(images, targets, lambda t: F.max_pool2d(t[:, None], reach, 1, reach // 2)[:, 0])), None
        )
    return (best.name, best.z) if best is not None else ("", 0.0)


def _sure(before: torch.Tensor, after: torch.Tensor) -> Move | None:
    """Return the turn in place, or the shift, by which one draw became the other, if nothing else does it."""
    found = in_place(before, after)
    turn = max(found, key=lambda name: found[name])
    rivals = [fit for name, fit in found.items() if name != turn]
    if found[turn] >= SURE:
        return Move(turn, 0, 0) if found[turn] - max(rivals) > APART else None
    move, fit = registered(before, after).best
    is_far = max(abs(move.down), abs(move.right)) >= max(2, FAR * before.shape[-1])
    return move if move.turn == UNMOVED and is_far and fit - max(found.values()) > APART and fit > SURE else None


def _is_mirrored(alone: list[tuple[int, torch.Tensor, torch.Tensor]], scale: float) -> bool:
    """Whether each column that changed and one that it changed to add up to the same number in all pairs."""
    if len({sample for sample, *_ in alone}) < FEWEST:
        return False
    before, after = (torch.stack(targets) for targets in ([one for _, one, _ in alone], [two for *_, two in alone]))
    changed = ((before - after).abs() > EQUAL * scale).double().mean(0) > 0.5
    sums = (before[:, :, None] + after[:, None, :]).std(0) <= 10 * EQUAL * scale
    return bool(changed.any()) and bool(sums[changed].any(1).all())
