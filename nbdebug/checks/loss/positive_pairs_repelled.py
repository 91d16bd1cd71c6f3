"""A contrastive loss that pushes apart what belongs together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.experiments.pair_forces import matrix_forces, triplet_forces
from nbdebug.experiments.tape import record
from nbdebug.sandbox import Sandbox
from nbdebug.setup.user_code import required_user_code

__all__ = ["PairForces", "pair_forces", "positive_pairs_repelled"]


@dataclass(frozen=True)
class PairForces:
    """Which pairs of representations the loss draws together, and what their inputs say about them.

    Of a matrix of similarities: of `samples` that were exchanged, for how many the representations of the same sample
    are pushed apart, and for how many others are drawn near. Of triplets: `distance` counts the standard errors by
    which the inputs of the pair that is drawn together are farther apart than those of the pair that is pushed apart.
    """

    kind: str  # matrix or triplets
    samples: int
    apart: int = 0
    others_near: int = 0
    op: str = ""
    distance: float = math.nan
    pulled: str = ""
    pushed: str = ""
    place: str = ""


@probe
def pair_forces(sandbox: Sandbox) -> PairForces:
    """Exchange single samples, and read which pairs of representations the loss draws together."""
    sandbox.ready_to_train()
    place = "train_step" if sandbox.train_step is not None else "loss_fn"
    place = "compute_loss" if sandbox.train_step is None and sandbox.compute_loss is not None else place
    with required_user_code("the run fails ({kind})"), sandbox.mode(training=False):
        tape = record(sandbox, sandbox.batch(), hold_modes=True)
        matrix = matrix_forces(sandbox, tape)
        if matrix is not None:
            return PairForces("matrix", matrix.samples, matrix.apart, matrix.others_near, matrix.op, place=place)
        triplets = triplet_forces(sandbox, tape)
    if triplets is None:
        raise NotApplicable("the loss compares no representations of the same sample, and no triplets")
    pulled, pushed, distance, rows = triplets
    return PairForces("triplets", rows, distance=distance, pulled=pulled, pushed=pushed, place=place)


@check(explains=("labels-unrelated-to-inputs", "training-fails", "cannot-overfit-batch", "loss-sign-flipped"))
def positive_pairs_repelled(
    forces: PairForces,
    *,
    distance: float = 6.0,  # standard errors between the distances of the inputs of both kinds of pairs; our choice
) -> Iterator[Finding]:
    """A contrastive loss pushes apart the representations of one sample.

    nbdebug exchanges single samples of a batch and looks which rows of a matrix of similarities change: these are the
    views of one sample. It reads the gradient of the loss at their similarity. In a loss of triplets, it compares how
    far apart the inputs are that the loss draws together, and those that it pushes apart.

    Why it matters: the index of the positives and the order of the views disagree, similarities stand where distances
    are due, or positive and negative are exchanged. The loss may still fall, and the representation is of no use.

    What to try: check which row is the partner of which. With `torch.cat([a, b])` the partner of row i is i + n.
    """
    if forces.kind == "matrix" and forces.samples and forces.apart == forces.others_near == forces.samples:
        yield _finding(
            f"The loss pushes the representations of one sample apart and draws others near, for all {forces.samples} "
            f"samples that were exchanged (`{forces.op}` of representations).",
            {"samples exchanged": forces.samples, "pushed apart": forces.apart, "others near": forces.others_near},
            forces,
            "bug",
        )
    if forces.kind == "triplets" and forces.distance > distance:
        yield _finding(
            f"The loss draws `{forces.pulled}` together and pushes `{forces.pushed}` apart, although the inputs drawn "
            f"together differ more ({forces.distance:.0f} standard errors, {forces.samples} triplets).",
            {"standard errors": forces.distance, "triplets": forces.samples, "threshold": distance},
            forces,
            "suspect",
        )


def _finding(says: str, evidence: dict[str, object], forces: PairForces, severity: str) -> Finding:
    return Finding(
        says,
        where=forces.place,
        severity="bug" if severity == "bug" else "suspect",
        evidence={
            "threshold": "the gradient at the similarity of one sample's representations",
            **evidence,
            "source": "Chen et al., 2020 (SimCLR); Schroff et al., 2015 (FaceNet)",
        },
        remedies=(
            Remedy(
                "Let the index of the positives follow the order of the views.",
                "z = torch.cat([model(a), model(b)])\npartner = torch.arange(2 * n).roll(n)",
            ),
        ),
    )
