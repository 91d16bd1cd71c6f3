"""Delta debugging over outcomes that are written down: what it names, and how little it tries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from nbdebug.engine.bisection.mixing import Taken
from nbdebug.engine.bisection.search import Search, named

Rule = Callable[[Taken], bool]
LETTERS = [frozenset([letter]) for letter in "abcdefgh"]


class Written(Search):
    """A search whose trainings come out as a rule says."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(courses=None, steps=100, goal=0.5, floor=0.0)  # type: ignore[arg-type]
        self.rule, self.asked = rule, list[Taken]()

    def race(self, mixtures: Sequence[Taken]) -> Taken | None:
        self.asked += mixtures
        return next((taken for taken in mixtures if self.rule(taken)), None)


def needs(*names: str) -> Rule:
    return lambda taken: taken >= set(names)


def found(units: Iterable[frozenset[str]]) -> str:
    return "".join(sorted(frozenset().union(*units)))


@pytest.mark.parametrize("names", ["a", "d", "h", "ab", "ah", "cf", "beg"])
def test_the_fewest_are_found(names: str) -> None:
    search = Written(needs(*names))
    assert found(search.minimal(LETTERS)) == names


def test_either_of_two_is_enough() -> None:
    assert found(Written(lambda taken: bool(taken & {"b", "g"})).minimal(LETTERS)) in ("b", "g")


def test_halves_are_tried_before_single_ones() -> None:
    search = Written(needs("g"))
    search.minimal(LETTERS)
    assert len(search.asked[0]) == 4 and len(search.asked) <= 6


def test_few_are_tried_one_by_one() -> None:
    search = Written(needs("b"))
    assert found(search.minimal(LETTERS[:3])) == "b"
    assert [len(taken) for taken in search.asked] == [1, 1, 1]


def test_what_only_fits_together_stays_together() -> None:
    units: list[Any] = [frozenset("ab"), frozenset("c"), frozenset("d"), frozenset("e")]
    assert found(Written(needs("b")).minimal(units)) == "ab"


def test_the_base_is_part_of_every_mixture() -> None:
    search = Written(needs("z", "c"))
    assert found(search.minimal(LETTERS, frozenset("z"))) == "c"
    assert all("z" in taken for taken in search.asked)


def test_names_are_listed() -> None:
    assert named(["b", "a"]) == "a and b" and named("abcde") == "a, b and 3 more" and named([]) == "nothing"
