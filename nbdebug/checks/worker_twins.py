"""DataLoader workers draw the same random numbers."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.evidence import Workers
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["worker_twins"]

_SEEDING = Remedy(
    "Seed from `torch.initial_seed()`, which differs for every worker and epoch.",
    "def worker_init_fn(worker_id):\n    np.random.seed(torch.initial_seed() % 2**32)",
)
_MAKING = Remedy(
    "Create the dataset's generator inside the worker, not in `__init__`.",
    "self.rng = np.random.default_rng(torch.initial_seed())  # in __getitem__, if self.rng is None",
)


@check
def worker_twins(workers: Workers) -> Iterator[Finding]:
    """Every DataLoader worker draws the same random augmentation.

    nbdebug lets two workers read the same samples and compares. A generator stored in the dataset is copied into every
    worker with the same state, and a constant seed in `worker_init_fn` is the same for all of them.

    Why it matters: with k workers only a part of the intended augmentation happens, k samples at a time are augmented
    identically, and often each epoch repeats the previous one.

    What to try: seed from `torch.initial_seed()` in `worker_init_fn`, and create generators inside the worker.
    """
    cause = f"; `worker_init_fn` is `{workers.init_fn}`" if workers.init_fn else ""
    cause += f"; the dataset holds a `{workers.held[0]}`" if workers.held else ""
    numbers = {
        "equal": workers.twins,
        "repeated": workers.repeats,
        "compared": workers.compared,
        "threshold": "all of them",
        "source": "two workers compared; independent random draws are never all equal",
    }
    remedies = (_MAKING, _SEEDING) if workers.held else (_SEEDING, _MAKING)
    if workers.compared >= 2 and workers.twins == workers.compared:
        yield Finding(
            f"Two of {workers.workers} workers produce the same random values for all {workers.compared} samples that "
            f"both read{cause}.",
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
