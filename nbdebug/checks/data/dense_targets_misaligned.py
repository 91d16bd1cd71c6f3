"""Dense or coordinate targets that fit their images better flipped, turned or shifted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from nbdebug.charts import Bars
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.joint_draws import JointDraws
from nbdebug.sandbox import Sandbox
from nbdebug.setup import Batch

__all__ = ["DenseAlignment", "MovedFit", "dense_alignment", "dense_targets_misaligned"]

BATCHES, MAX_SAMPLES, OTHERS = 3, 48, 3
MAX_CLASSES, SMALLEST, LARGEST = 6, 8, 64  # classes that are looked at; sizes in pixels, to which images are reduced

Move = Callable[[torch.Tensor], torch.Tensor]

DRAW_ONCE = Remedy(
    "Draw each augmentation once, for image and target together.",
    "if torch.rand(()) < 0.5:\n    image, mask = image.flip(-1), mask.flip(-1)",
)


@dataclass(frozen=True)
class MovedFit:
    """How much better an image predicts its own target than those of other samples, after the target was moved.

    `gain` is the mean difference to the target as it is, in explained variance, `z` the same over its standard error;
    `wins` is the share of samples that fit better by far after the move.
    """

    move: str
    fit: float
    gain: float
    z: float
    wins: float


@dataclass(frozen=True)
class DenseAlignment:
    """The fit of images and dense targets as they are (`fit`, with its z-score), and moved."""

    target: str
    samples: int
    fit: float
    z: float
    moves: tuple[MovedFit, ...]


@probe
def dense_alignment(sandbox: Sandbox, control: Control) -> DenseAlignment:
    """Predict each pixel of the targets from its image, as they are and flipped, turned or shifted."""
    pairs = [pair for batch in sandbox.batches(BATCHES) if (pair := _pair(batch)) is not None]
    if not pairs:
        raise NotApplicable("no target has the height and width of the images")
    name, images, targets = pairs[0][0], _joined(pairs, 1), _joined(pairs, 2)
    if len(images) < 8:
        raise NotApplicable("fewer than 8 images of one size")
    features, values = _features(images), _target_features(targets)
    as_it_is = _fits(features, values)
    own = as_it_is[:, 0] - as_it_is[:, 1:].mean(1)
    noise = float((as_it_is[:, 1:] - as_it_is[:, 1:].mean(1, keepdims=True)).std())
    moves = []
    changes = _moves(values.shape[-2], values.shape[-1], with_shifts=not targets.is_floating_point())
    for index, (move, change) in enumerate(changes.items()):
        control.progress(index / len(changes), "comparing images with moved targets")
        fits = _fits(features, change(values))
        moved = fits[:, 0] - fits[:, 1:].mean(1)
        gain = moved - own
        far = max(3 * noise, 0.02)
        moves.append(MovedFit(move, float(moved.mean()), float(gain.mean()), _z(gain), float((gain > far).mean())))
    return DenseAlignment(name, len(images), float(own.mean()), _z(own), tuple(moves))


def _pair(batch: Batch) -> tuple[str, torch.Tensor, torch.Tensor] | None:
    """Return an image tensor and a target of the same height and width."""
    for image in batch.inputs.values():
        if image.dim() != 4 or not image.is_floating_point() or min(image.shape[-2:]) < SMALLEST:
            continue
        for name, target in batch.targets.items():
            if target.dim() in (3, 4) and target.shape[0] == image.shape[0] and target.shape[-2:] == image.shape[-2:]:
                return name, image.detach().float().cpu(), target.detach().cpu()
    return None


def _joined(pairs: list[tuple[str, torch.Tensor, torch.Tensor]], place: int) -> torch.Tensor:
    found = [pair[place] for pair in pairs if pair[place].shape[1:] == pairs[0][place].shape[1:]]  # type: ignore[union-attr]
    return torch.cat(found)[:MAX_SAMPLES]  # type: ignore[arg-type]


def _features(images: torch.Tensor) -> torch.Tensor:
    """Return brightness, its local mean, its gradient and the channels of each pixel."""
    gray = images.mean(1, keepdim=True)
    smooth = F.avg_pool2d(gray, 5, 1, 2, count_include_pad=False)
    edges = (gray - smooth).abs()
    parts = [gray, smooth, F.avg_pool2d(edges, 3, 1, 1)] + ([images[:, :3]] if images.shape[1] > 1 else [])
    return _reduced(torch.cat(parts, 1))


def _target_features(targets: torch.Tensor) -> torch.Tensor:
    """Return the values of the targets, or for classes one map each and their borders."""
    planes = targets if targets.dim() == 4 else targets[:, None]
    if planes.is_floating_point():
        return _reduced(planes[:, :MAX_CLASSES].float())
    labels, counts = planes.unique(return_counts=True)
    common = labels[counts.argsort(descending=True)][:MAX_CLASSES]
    maps = [(planes == label).float().amax(1, keepdim=True) for label in common]
    border = (F.avg_pool2d(maps[0], 3, 1, 1) - maps[0]).abs()
    return _reduced(torch.cat([*maps, border], 1))


def _reduced(maps: torch.Tensor) -> torch.Tensor:
    scale = max(1, max(maps.shape[-2:]) // LARGEST)
    return F.avg_pool2d(maps, scale) if scale > 1 else maps


def _moves(height: int, width: int, with_shifts: bool) -> dict[str, Move]:
    """Return what may have moved a target; frames that follow on each other are shifted by what moves in them."""
    down, right = max(height // 8, 1), max(width // 8, 1)
    moves: dict[str, Move] = {
        "flipped left to right": lambda t: t.flip(-1),
        "flipped top to bottom": lambda t: t.flip(-2),
        "turned by 180 degrees": lambda t: t.flip(-1, -2),
    }
    if with_shifts:
        moves["shifted down"] = lambda t: t.roll(down, -2)
        moves["shifted up"] = lambda t: t.roll(-down, -2)
        moves["shifted right"] = lambda t: t.roll(right, -1)
        moves["shifted left"] = lambda t: t.roll(-right, -1)
    if height == width:
        moves["transposed"] = lambda t: t.mT
        moves["turned by 90 degrees"] = lambda t: t.rot90(1, (-2, -1))
        moves["turned by 270 degrees"] = lambda t: t.rot90(-1, (-2, -1))
    return moves


def _fits(features: torch.Tensor, values: torch.Tensor) -> np.ndarray:
    """Return, for each sample, how well a linear fit explains its own target, then those of other samples."""
    x = features.flatten(2).mT.double()
    x = torch.cat([(x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True).clamp_min(1e-6)], 2)
    basis, strength, _ = torch.linalg.svd(x, full_matrices=False)
    basis = basis * (strength > 1e-6 * strength[:, :1])[:, None, :]
    y = values.flatten(2).mT.double()
    y = y - y.mean(1, keepdim=True)
    fits = []
    for shift in range(OTHERS + 1):
        other = y.roll(shift, 0)
        total = other.square().sum((1, 2))
        explained = (basis.mT @ other).square().sum((1, 2)) / total.clamp_min(1e-9)
        fits.append(torch.where(total > 1e-9, explained, torch.zeros_like(explained)))
    return torch.stack(fits, 1).numpy()


def _z(values: np.ndarray) -> float:
    return float(values.mean() / max(values.std(ddof=1) / np.sqrt(len(values)), 1e-9))


@check(basis="statistic", explains=("labels-unrelated-to-inputs", "cannot-overfit-batch", "worse-than-baseline"))
def dense_targets_misaligned(
    alignment: DenseAlignment | None,
    draws: JointDraws | None,
    *,
    sigmas: float = 4.0,  # one in 30,000 by chance, for each of ten moves
    gain: float = 0.05,  # of explained variance; a symmetric scene gains nothing; our choice
    wins: float = 0.2,  # share of samples that fit better by far after the move; random flips give half of them
    apart: float = 0.2,  # share of the pairs of draws in which image and target moved differently; our choice
    samples: int = 3,  # in which they did, at least; our choice
    placed: float = 5.0,  # standard errors by which images show more at the coordinates of their targets; our choice
) -> Iterator[Finding]:
    """Images and their targets (masks, boxes, keypoints) are not aligned.

    Where samples are augmented at random, nbdebug loads the same ones several times, registers the images with each
    other, and compares how image and target moved: by the same flip, turn and shift or not. Of targets that stay where
    they are it first verifies that they are coordinates, by what the images show at these places. And it predicts the
    pixels of dense targets from brightness, edges and channels of their own and of other images, with the target as it
    is, flipped, turned and shifted: one that fits better after a move was moved without its image.

    Why it matters: a flip or a crop that is drawn once for the image and once for the target gives labels of other
    pixels. The model learns a blurred average.

    What to try: apply each geometric augmentation to image and target together, with the same random draw.
    """
    if alignment is None and draws is None:
        raise NotApplicable("no target has the height and width of the images, or is drawn again as coordinates")
    meant = draws is not None and (draws.placed is None or draws.placed >= placed)
    if draws is not None and meant and draws.samples >= samples and draws.apart >= apart * draws.pairs:
        yield _drawn_apart(draws, apart)
        return
    if alignment is None:
        return
    always = [m for m in alignment.moves if m.z > sigmas and m.gain > gain]
    often = [m for m in alignment.moves if m.wins > wins and m.fit > gain and alignment.fit > 0]
    best = max(always or often, key=lambda m: m.gain if always else m.wins, default=None)
    if best is None:
        return
    how = "" if always else f" in {best.wins:.0%} of the samples"
    yield Finding(
        f"The target fits its image better {best.move}{how}: it explains {best.fit:.0%} of the variance, as it is "
        f"{alignment.fit:.0%}.",
        where=alignment.target,
        severity="suspect",
        evidence={
            "explained variance beyond other samples, as it is": alignment.fit,
            f"explained variance, {best.move}": best.fit,
            "z-score of the gain": best.z,
            "share of samples that fit better after the move": best.wins,
            "samples": alignment.samples,
            "threshold": sigmas if always else wins,
            "source": "documentation of torchvision.transforms.v2: images and masks are transformed jointly",
        },
        remedies=(DRAW_ONCE,),
        exhibit=Bars(("as it is", best.move), (alignment.fit, best.fit), title="Explained variance"),
    )


def _drawn_apart(draws: JointDraws, threshold: float) -> Finding:
    meant = (
        f"; the targets are coordinates ({draws.reading}, z = {draws.placed:.0f})" if draws.placed is not None else ""
    )
    return Finding(
        f"Image and target are augmented apart: in {draws.apart} of {draws.pairs} pairs of draws of the same sample "
        f"they move differently, mostly the image {draws.image_moves}, the target {draws.target_moves}{meant}.",
        where=draws.target,
        severity="suspect",
        is_contradiction=True,
        evidence={
            "pairs of draws": draws.pairs,
            "pairs that moved apart": draws.apart,
            "samples with such a pair": draws.samples,
            "z-score of the places in the images": draws.placed,
            "threshold": threshold,
            "source": "documentation of torchvision.transforms.v2: images, masks and boxes are transformed jointly",
        },
        remedies=(DRAW_ONCE,),
        exhibit=Bars(("together", "apart"), (draws.pairs - draws.apart, draws.apart), title="Pairs of draws"),
    )
