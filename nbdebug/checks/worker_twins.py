"""Workers that draw the same random numbers."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Workers
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["worker_twins"]

_SEEDING = Remedy(
    "Seed by what PyTorch gives each worker; it differs from worker to worker and from epoch to epoch.",
    "def worker_init_fn(worker_id):\n    np.random.seed(torch.initial_seed() % 2**32)",
)
_MAKING = Remedy(
    "Make the data set's own generator when a worker first reads, not when the data set is made.",
    "self.rng = np.random.default_rng(torch.initial_seed())  # in __getitem__, if self.rng is None",
)


@check
def worker_twins(workers: Workers) -> Iterator[Finding]:
    """Every worker process draws the same random augmentation.

    nbdebug lets two workers read the same samples and compares. A generator that the data set holds is copied into
    every worker in the same state, and a seed that is fixed in worker_init_fn is the same for all of them.

    Why it matters: with k workers only a part of the augmentation that you asked for happens, k samples at a time are
    changed in the same way, and often each epoch repeats the one before.

    What to try: seed from torch.initial_seed() in worker_init_fn, and make generators inside the worker.
    """
    cause = f"; worker_init_fn is {workers.init_fn}" if workers.init_fn else ""
    cause += f"; the data set holds a {workers.held[0]}" if workers.held else ""
    numbers = {
        "equal": workers.twins,
        "repeated": workers.repeats,
        "compared": workers.compared,
        "threshold": "all of them",
        "source": "two workers compared; independent draws are never all equal",
    }
    remedies = (_MAKING, _SEEDING) if workers.held else (_SEEDING, _MAKING)
    if workers.compared >= 2 and workers.twins == workers.compared:
        yield Finding(
            f"Two of your {workers.workers} workers give the same random values for all {workers.compared} samples "
            f"that both read{cause}.",
            where="loader",
            evidence=numbers,
            remedies=remedies,
        )
    elif workers.compared >= 2 and workers.repeats == workers.compared and not workers.persistent:
        yield Finding(
            f"The second epoch repeats the random values of the first for all {workers.compared} samples{cause}.",
            where="loader",
            severity="suspect",
            evidence=numbers,
            remedies=remedies,
        )
