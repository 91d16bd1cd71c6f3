"""Every probe and every check, found by what they need and what they yield.

A probe is registered under the evidence type that it returns, a check under its own name; both say in their
signatures what they need. A user's own, written in a notebook cell, are registered in the same way and work at once.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, overload

from nbdebug.core.renamed import current_id
from nbdebug.core.rng_safe_import import drawing_nothing

__all__ = ["Basis", "CheckSpec", "Need", "ProbeSpec", "Registry", "check", "probe", "recorded", "registry"]

F = TypeVar("F", bound=Callable[..., Any])
# A contradiction is what no sound program can show. A statistic only looks odd: it is a problem where the training
# fails, and a bug where its fix on a copy rescues the training.
Basis = Literal["contradiction", "statistic"]


@dataclass(frozen=True)
class Need:
    """One thing that a probe or check asks for: its type, and whether it can do without."""

    kind: type
    optional: bool = False


@dataclass(frozen=True)
class ProbeSpec:
    """An experiment: the function, what it needs, the type of evidence that it yields, and its part of the budget."""

    name: str
    function: Callable[..., Any]
    needs: dict[str, Need]
    yields: type
    is_quick: bool = True
    share: float = 0.25
    ops: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The first line of the docstring, without the full stop."""
        return _headings(self.function)["title"].rstrip(".")


@dataclass(frozen=True)
class CheckSpec:
    """A check: the pure function, the evidence it needs, its thresholds, and what its docstring says."""

    id: str
    function: Callable[..., Any]
    needs: dict[str, Need]
    thresholds: dict[str, Any]
    explains: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    stage: str = ""
    basis: Basis = "contradiction"
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The problem in one sentence."""
        return self.texts["title"]

    @property
    def why(self) -> str:
        """Why it matters."""
        return self.texts["Why it matters"]

    @property
    def remedy(self) -> str:
        """What to try."""
        return self.texts["What to try"]


class Registry:
    """The probes by evidence type and the checks by id; the newest definition of a name wins."""

    def __init__(self) -> None:
        self.checks: dict[str, CheckSpec] = {}
        self.probes: dict[type, ProbeSpec] = {}
        self.readers: dict[type, ProbeSpec] = {}  # the same evidence, worked out from the recording of a real training
        self._aliases: dict[str, str] = {}
        self._loaded: set[str] = set()

    def load(self, *packages: str) -> Registry:
        """Import every module of these packages once, so that what they define is registered."""
        for package in packages or ("nbdebug.evidence", "nbdebug.checks"):
            if package not in self._loaded:
                with drawing_nothing():
                    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
                        importlib.import_module(module.name)
                self._loaded.add(package)  # not before: an interrupt may land in the middle
        return self

    def find(self, check: str) -> CheckSpec:
        """Return the check with this id or alias; an unknown one gets the nearest names."""
        from nbdebug.errors import BadInput

        name = current_id(check)
        name = self._aliases.get(name, name)
        if name not in self.checks:
            import difflib

            near = difflib.get_close_matches(name, self.checks, n=3, cutoff=0.4)
            raise BadInput(
                f"there is no check called {check!r}",
                where="check id",
                expected="one of the ids that nbdebug.list_checks() lists",
                do=f"perhaps you meant {' or '.join(near)}"
                if near
                else "call nbdebug.list_checks() to list all checks",
            )
        return self.checks[name]

    def probe_for(self, evidence: type) -> ProbeSpec | None:
        """Return the probe that yields this type of evidence."""
        return self.probes.get(evidence)

    def reader_for(self, evidence: type) -> ProbeSpec | None:
        """Return what works this type of evidence out of a recording; a probe may do that, too."""
        return self.readers.get(evidence) or self.probes.get(evidence)

    def add_check(self, spec: CheckSpec) -> None:
        """Register a check, in place of one with the same id."""
        self.checks[spec.id] = spec
        self._aliases.update(dict.fromkeys(spec.aliases, spec.id))

    def add_probe(self, spec: ProbeSpec) -> None:
        """Register a probe under its evidence; a notebook cell that is run again replaces its older self."""
        for kind, known in list(self.probes.items()):
            if known.name == spec.name and known.function.__module__ == spec.function.__module__:
                del self.probes[kind]
        self.probes[spec.yields] = spec


registry = Registry()


@overload
def check(function: F, /) -> F: ...
@overload
def check(
    *, explains: Iterable[str] = (), aliases: Iterable[str] = (), stage: str = "", basis: Basis = "contradiction"
) -> Callable[[F], F]: ...
def check(
    function: F | None = None,
    /,
    *,
    explains: Iterable[str] = (),
    aliases: Iterable[str] = (),
    stage: str = "",
    basis: Basis = "contradiction",
) -> F | Callable[[F], F]:
    """Register a function from evidence to findings as a check.

    `explains` names the problems that this one accounts for when both are found; `stage` places a check of your
    own in the tree (by default it stands in a stage called "Yours"). A check with `basis="statistic"` judges what only
    looks odd: `diagnose` makes its findings notes where the training learns, and bugs where their fix rescues it.

    Args:
        function: The function; without it, `check` returns a decorator.
        explains: The ids of problems that this one accounts for when both are found.
        aliases: Former ids.
        stage: The stage of the tree; "Yours" by default.
        basis: "contradiction", or "statistic" for what only looks odd.
    """

    def register(function: F) -> F:
        hints, signature = typing.get_type_hints(function), inspect.signature(function)
        asked = [p for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY]
        registry.add_check(
            CheckSpec(
                id=function.__name__.replace("_", "-"),
                function=function,
                needs={p.name: _need(function, p.name, hints) for p in asked},
                thresholds={p.name: p.default for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY},
                explains=tuple(explains),
                aliases=tuple(aliases),
                stage=stage,
                basis=basis,
                texts=_headings(function),
            )
        )
        return function

    return register if function is None else register(function)


@overload
def probe(function: F, /) -> F: ...
@overload
def probe(*, quick: bool = True, share: float = 0.25, ops: Iterable[str] = ()) -> Callable[[F], F]: ...
def probe(
    function: F | None = None, /, *, quick: bool = True, share: float = 0.25, ops: Iterable[str] = ()
) -> F | Callable[[F], F]:
    """Register a function that experiments on a copy, or looks at a setup, and returns evidence.

    Args:
        function: The function, where the decorator stands without parentheses.
        quick: False for one that trains for a while, or takes longer than some training steps: a quick diagnosis
            leaves it out.
        share: The part of a run's time limit that it may take; what does not fit is not tried.
        ops: Names of torch functions; it is left out unless a recorded run of the loss or training step calls one.
    """

    def register(function: F) -> F:
        registry.add_probe(replace(_source(function, quick), share=share, ops=tuple(ops)))
        return function

    return register if function is None else register(function)


def recorded(function: F) -> F:
    """Register a function that works evidence out of the recording of a real training.

    Where a probe yields the same type of evidence from an experiment, the same checks judge both.
    """
    spec = _source(function, quick=True)
    registry.readers[spec.yields] = spec
    return function


def _source(function: Callable[..., Any], quick: bool) -> ProbeSpec:
    hints, signature = typing.get_type_hints(function), inspect.signature(function)
    if not isinstance(hints.get("return"), type):
        raise TypeError(
            f"the probe {function.__name__!r} has no return annotation; annotate it with its evidence class, "
            f"for example `def {function.__name__}(sandbox: nbdebug.Sandbox) -> MyEvidence:`"
        )
    needs = {name: _need(function, name, hints) for name in signature.parameters}
    return ProbeSpec(function.__name__, function, needs, hints["return"], quick)


def _need(function: Callable[..., Any], name: str, hints: dict[str, Any]) -> Need:
    """Read one annotated parameter: a class, or a class or None where it can do without."""
    hint = hints.get(name)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        if len(kinds) == 1 and isinstance(kinds[0], type):
            return Need(kinds[0], optional=True)
    if not isinstance(hint, type):
        raise TypeError(
            f"{function.__name__}({name}) has no annotation; annotate it with an evidence "
            f"class, for example `{name}: nbdebug.evidence.FirstPass`"
        )
    return Need(hint)


def _headings(function: Callable[..., Any]) -> dict[str, str]:
    """Split a docstring into its title, its description and the paragraphs under fixed headings."""
    text = inspect.cleandoc(function.__doc__ or "")
    title, _, rest = text.partition("\n\n")
    texts = {"title": " ".join(title.split()), "about": "", "Why it matters": "", "What to try": ""}
    heading = "about"
    for paragraph in rest.split("\n\n"):
        for name in ("Why it matters", "What to try"):
            if paragraph.startswith(f"{name}:"):
                heading, paragraph = name, paragraph.removeprefix(f"{name}:")
        texts[heading] = f"{texts[heading]}\n\n{' '.join(paragraph.split())}".strip()
    return texts
