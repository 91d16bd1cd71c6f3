"""Training samples are in a held-out split."""

from __future__ import annotations

from collections.abc import Iterator

from scipy.stats import fisher_exact

from nbdebug.evidence import SplitPair, Splits
from nbdebug.exhibit import Table
from nbdebug.finding import Finding, Remedy
from nbdebug.registry import check

__all__ = ["split_leakage"]


@check
def split_leakage(
    splits: Splits,
    *,
    share: float = 0.01,  # of the split; public image datasets have about as many duplicates (3 % in CIFAR-10)
    near_share: float = 0.05,
    p_value: float = 1e-4,
) -> Iterator[Finding]:
    """Training samples are in the validation or test set as well.

    nbdebug compares the full content of samples, the indices where both loaders draw from one dataset, and searches for
    near-duplicates. Data that contain natural duplicates, such as a table with few distinct values, repeat as often
    within the training data: only what exceeds that counts.

    Why it matters: a model that has memorized a sample predicts it correctly. The validation error then says nothing
    about new data, and overfitting goes undetected.

    What to try: remove duplicates first, split after, and augment or oversample last, the training set only. Split by
    person, document or recording where several samples come from one.
    """
    for pair in splits.pairs:
        found = _by_index(pair) or _by_content(pair, share, p_value) or _by_distance(pair, near_share, p_value)
        if found is not None:
            yield found


def _by_index(pair: SplitPair) -> Finding | None:
    if not pair.shared:
        return None
    says = (
        f"{pair.shared} of {pair.shared_of} samples in `{pair.name}` are also drawn by the training loader (same "
        f"dataset indices, for example {_list(pair.examples)})."
    )
    return _finding(pair, says, "bug", pair.shared, pair.shared_of, 0.0)


def _by_content(pair: SplitPair, share: float, p_value: float) -> Finding | None:
    if not pair.exact:
        return None
    p = _more_often(pair.exact, pair.compared, pair.inner, pair.inner_compared)
    counted = pair.exact if p < p_value else pair.beyond_chance
    if not counted:
        return None
    alarm = counted >= max(2, share * pair.compared)
    says = (
        f"{counted} of {pair.compared} samples in `{pair.name}` are exact copies of training samples (compared with "
        f"{_of(pair)}), for example {_list(pair.examples)}."
    )
    severity = "note" if not alarm else "bug" if counted >= 5 * share * pair.compared else "suspect"
    return _finding(pair, says, severity, counted, pair.compared, p)


def _by_distance(pair: SplitPair, share: float, p_value: float) -> Finding | None:
    p = _more_often(pair.near, pair.near_compared, pair.inner_near, pair.inner_near_compared)
    if pair.near < share * pair.near_compared or p > p_value:
        return None
    says = (
        f"{pair.near} of {pair.near_compared} samples in `{pair.name}` are near-duplicates of training samples (within "
        f"the training set: {pair.inner_near} of {pair.inner_near_compared}), for example {_list(pair.near_examples)}."
    )
    return _finding(pair, says, "suspect", pair.near, pair.near_compared, p)


def _more_often(hits: int, size: int, inner: int, inner_size: int) -> float:
    """Return the p-value of this many hits if the split had the duplicate rate of the training data."""
    if not hits:
        return 1.0
    table = [[hits, size - hits], [inner, inner_size - inner]]
    return float(fisher_exact(table, alternative="greater").pvalue)


def _of(pair: SplitPair) -> str:
    whole = pair.pool_total in (None, pair.pool)
    return f"{pair.pool} training samples" if whole else f"{pair.pool} of {pair.pool_total} training samples"


def _list(examples: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"sample {held} = training sample {train}" for held, train in examples[:1])


def _finding(pair: SplitPair, says: str, severity: str, counted: int, size: int, p: float) -> Finding:
    examples = pair.examples or pair.near_examples
    return Finding(
        says,
        where=pair.name,
        severity=severity,  # type: ignore[arg-type]
        evidence={
            "leaked": counted,
            "share": counted / max(size, 1),
            "p": p,
            "indices": [held for held, _ in examples],
            "threshold": 0.01,
            "source": "Full Stack Deep Learning, lecture 7; cleanlab's near-duplicate distance",
        },
        remedies=(
            Remedy("Split deduplicated samples once, by index.", "train, val = random_split(dataset, [0.8, 0.2])"),
            Remedy("Keep samples of the same group in one split.", "GroupShuffleSplit().split(x, y, groups)"),
        ),
        exhibit=Table((f"index in {pair.name}", "index in loader"), examples, "Shared samples"),
    )
