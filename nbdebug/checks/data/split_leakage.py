"""Training samples are in a held-out split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scipy.stats import fisher_exact

from nbdebug.charts import Table
from nbdebug.core.control import Control
from nbdebug.core.finding import Finding, Patch, Remedy
from nbdebug.core.registry import check, probe
from nbdebug.errors import NotApplicable
from nbdebug.evidence.sample_table import Samples, SampleTable
from nbdebug.evidence.split_overlap import (
    SHOWN,
    Digests,
    improbable_samples,
    near_duplicates,
    repeats_at_random,
    shared_indices,
    split_digests,
)
from nbdebug.setup import Feed, Setup
from nbdebug.setup.dataset_origin import without_augmentation

__all__ = ["SplitPair", "Splits", "split_leakage", "splits"]


@dataclass(frozen=True)
class SplitPair:
    """How many samples of a held-out split are in the training data as well.

    `exact` counts samples of the split whose whole content occurs in the training samples compared; `beyond_chance`
    those of them whose content is too rich to repeat by accident. `inner` counts in the same way how many training
    samples have a copy among the other training samples, `near` and `inner_near` the same for almost equal samples.
    `shared` counts samples of one data set that both splits draw by index. Examples pair the indices: split, training.
    """

    name: str
    compared: int
    pool: int
    pool_total: int | None
    exact: int
    beyond_chance: int
    inner: int
    inner_compared: int
    near: int = 0
    near_compared: int = 0
    inner_near: int = 0
    inner_near_compared: int = 0
    shared: int | None = None
    shared_of: int = 0
    examples: tuple[tuple[int, int], ...] = ()
    near_examples: tuple[tuple[int, int], ...] = ()
    blind: str = ""


@dataclass(frozen=True)
class Splits:
    """Each held-out split against the training data."""

    pairs: tuple[SplitPair, ...]


@probe
def splits(setup: Setup, samples: Samples, control: Control) -> Splits:
    """Search training and held-out data for duplicates and near-duplicates."""
    feeds = [feed for feed in (setup.val_feed, setup.test_feed) if feed is not None]
    if not feeds:
        raise NotApplicable("there is no validation or test loader to compare with")
    if all(feed.is_one_batch for feed in (setup.feed, *feeds)):
        raise NotApplicable("each split is one batch, such as one graph with a mask for each split")
    source, blind = setup.feed, ""
    if samples.random:
        plain = without_augmentation(setup.feed, feeds[0])
        source, blind = plain or source, "" if plain else "training samples are augmented at random"
    train = split_digests(setup, source, samples.clean, control, 0.0, 0.5)
    pairs = []
    for number, feed in enumerate(feeds):
        table = next(t for t in samples.others if t.name == feed.name)
        held = split_digests(setup, feed, table, control, 0.5 + 0.4 * number / len(feeds), 0.4 / len(feeds))
        pairs.append(_compare(setup, feed, train, held, samples.clean, table, blind))
    return Splits(tuple(pairs))


def _compare(
    setup: Setup, feed: Feed, train: Digests, held: Digests, clean: SampleTable, table: SampleTable, blind: str
) -> SplitPair:
    matches = [(i, train.places[d][0]) for d, places in held.places.items() if d in train.places for i in places]
    repeated = sum(len(places) for places in train.places.values() if len(places) > 1)
    shared, shared_of, same = shared_indices(setup.feed, feed)
    near, near_of, near_pairs = near_duplicates(clean, table)
    inner_near, inner_of, _ = near_duplicates(clean, clean)
    return SplitPair(
        name=feed.name,
        compared=held.count,
        pool=train.count,
        pool_total=setup.feed.total,
        exact=len(matches),
        beyond_chance=0
        if repeats_at_random(train.places)
        else improbable_samples(setup, feed, [i for i, _ in matches], clean),
        inner=repeated,
        inner_compared=train.count,
        near=near,
        near_compared=near_of,
        inner_near=inner_near,
        inner_near_compared=inner_of,
        shared=shared,
        shared_of=shared_of,
        examples=tuple(matches[:SHOWN]) or same,
        near_examples=near_pairs,
        blind=blind,
    )


@check
def split_leakage(
    splits: Splits,
    *,
    share: float = 0.01,  # of the split; public image datasets have about as many duplicates (3 % in CIFAR-10)
    pairs: int = 2,  # copies, at least; our choice
    surely: float = 5.0,  # times `share`: a bug; our choice
    near_share: float = 0.05,  # of the split; our choice
    p_value: float = 1e-4,  # of Fisher's exact test against copies within the training data; our choice
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
        found = (
            _by_index(pair)
            or _by_content(pair, share, pairs, surely, p_value)
            or _by_distance(pair, near_share, p_value)
        )
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


def _by_content(pair: SplitPair, share: float, least: int, surely: float, p_value: float) -> Finding | None:
    if not pair.exact:
        return None
    p = _more_often(pair.exact, pair.compared, pair.inner, pair.inner_compared)
    counted = pair.exact if p < p_value else pair.beyond_chance
    if not counted:
        return None
    alarm = counted >= max(least, share * pair.compared)
    says = (
        f"{counted} of {pair.compared} samples in `{pair.name}` are exact copies of training samples (compared with "
        f"{_of(pair)}), for example {_list(pair.examples)}."
    )
    severity = "note" if not alarm else "bug" if counted >= surely * share * pair.compared else "suspect"
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
            Remedy(
                "Split deduplicated samples once, by index.",
                "train, val = random_split(dataset, [0.8, 0.2])",
                Patch("remove-copies", {"split": pair.name}) if pair.exact or pair.shared else None,
            ),
            Remedy("Keep samples of the same group in one split.", "GroupShuffleSplit().split(x, y, groups)"),
        ),
        exhibit=Table((f"index in {pair.name}", "index in loader"), examples, "Shared samples"),
    )
