"""Random indices that reach only the beginning of a table."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.core.finding import Finding, Remedy
from nbdebug.core.registry import check
from nbdebug.evidence.loss_operands import LossOperands

__all__ = ["indices_drawn_from_part"]


@check
def indices_drawn_from_part(
    operands: LossOperands,
    *,
    part: float = 0.5,  # of the rows that the batch looks up; uniform draws reach them all but once in 2^16
    draws: int = 16,  # indices; with fewer, the highest may be low by chance
) -> Iterator[Finding]:
    """Indices are drawn from a small part of the table that they look up.

    nbdebug records one run of your loss. Where an embedding is looked up by uniform random integers and by indices of
    the batch as well, it compares how far both reach.

    Why it matters: negative samples that come only from the first rows teach the model nothing about the others. Their
    scores are never lowered, so they are recommended to everyone. Typical is a count that was read from the wrong
    dimension of the table, `weight.shape[1]`.

    What to try: draw up to the number of rows, `torch.randint(0, table.num_embeddings, shape)`.
    """
    for found in operands.drawn:
        if found.drawn < draws or found.highest + 1 > part * (found.of_batch + 1):
            continue
        yield Finding(
            f"{found.drawn} random indices into a table of {found.rows} rows stay below {found.highest + 1}, but the "
            f"batch looks up rows as high as {found.of_batch}.",
            where=operands.place,
            severity="suspect",
            evidence={
                "rows": found.rows,
                "highest random index": found.highest,
                "highest index of the batch": found.of_batch,
                "random indices": found.drawn,
                "threshold": part,
                "source": "Rendle et al., 2009 (BPR): negatives are drawn from all items",
            },
            remedies=(
                Remedy("Draw from all rows.", "negatives = torch.randint(0, table.num_embeddings, positives.shape)"),
            ),
        )
        return
