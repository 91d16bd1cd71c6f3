"""How far healthy and failing set-ups stay from every threshold: `python -m benchmarks.threshold_margins`.

Each check is judged again on the evidence that it was given, with one threshold moved by a factor at a time. For a
healthy set-up the margin is the smallest factor at which the check raises an alarm; for a failing example the smallest
at which the check finds nothing. What is written is the nearest of each, over all set-ups, with the set-up's name.
Verdicts are those of the check alone, before the training has its say (docs/verdicts.md).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import nbdebug
from nbdebug.core.finding import SEVERITIES
from nbdebug.core.registry import CheckSpec, registry
from nbdebug.errors import NotApplicable
from nbdebug.watch.judging import judged
from tests.examples import all_failing_examples, all_healthy, all_recorded

RESULTS = Path(__file__).parent / "results" / "threshold_margins.json"
STEPS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)
FACTORS = sorted({f for step in STEPS for f in (step, 1 / step)}, key=lambda f: (abs(math.log(f)), f))
ALARMS = ("bug", "suspect")


@dataclass
class Margin:
    """How many set-ups a threshold was tried on, and the nearest of them: the factor at which its verdict changes."""

    count: int = 0
    factor: float | None = None  # None: no set-up's verdict changes within the factors that are tried
    nearest: str = ""

    def add(self, factor: float | None, name: str) -> None:
        """Take another set-up into account."""
        self.count += 1
        if factor is not None and (self.factor is None or abs(math.log(factor)) < abs(math.log(self.factor))):
            self.factor, self.nearest = factor, name


class Margins:
    """The margins of every threshold on both sides, by `healthy` and `failing`."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, dict[str, Margin]]] = {}
        self.name, self.failing = "", ""  # the set-up at hand, and the check that has to find it

    def hear(self, spec: CheckSpec, evidence: dict[str, Any]) -> None:
        """Judge evidence again with every threshold moved."""
        if spec.id != self.failing and self.failing:
            return
        side, wanted = ("failing", False) if self.failing else ("healthy", True)
        grave = SEVERITIES if self.failing else ALARMS
        if _raises(spec, evidence, {}, grave) not in ((True,) if self.failing else (True, False)):
            return  # it does not apply, or this is the example with its fix
        for threshold, default in spec.thresholds.items():
            if isinstance(default, bool) or not isinstance(default, (int, float)) or not default:
                continue
            moved = ((f, {threshold: _moved(default, f)}) for f in FACTORS)
            at = next((f for f, to in moved if _raises(spec, evidence, to, grave) is wanted), None)
            sides = self.of.setdefault(spec.id, {}).setdefault(threshold, {})
            sides.setdefault(side, Margin()).add(at, self.name)


def _moved(default: float, factor: float) -> float:
    """Return a threshold times a factor; a whole number stays one, and moves by one at least."""
    if isinstance(default, float) or factor == 1:
        return default * factor if isinstance(default, float) else default
    return max(default + 1, round(default * factor)) if factor > 1 else min(default - 1, round(default * factor))


def _raises(spec: CheckSpec, evidence: dict[str, Any], to: dict[str, Any], grave: tuple[str, ...]) -> bool | None:
    """Return whether the check finds something this grave; None where it does not apply or cannot be run so."""
    try:
        return any(finding.severity in grave for finding in spec.function(**evidence, **to) or ())
    except NotApplicable:
        return False if to else None
    except Exception:
        return None


def listening(margins: Margins) -> None:
    """Let every check that runs from now on be judged with moved thresholds as well."""

    def wrapped(spec: CheckSpec) -> Callable[..., Any]:
        def judge(**given: Any) -> Any:
            margins.hear(spec, {name: value for name, value in given.items() if name in spec.needs})
            return spec.function(**given)

        return judge

    for spec in list(registry.load().checks.values()):
        registry.add_check(dataclasses.replace(spec, function=wrapped(spec)))


def set_ups() -> Iterator[tuple[str, str, Callable[[], dict[str, Any]]]]:
    """Yield the name of every set-up, the check that has to find it (none if healthy), and what makes it."""
    failing = [(f"{p.check}:{p.name}", p.check, p.make) for p in (*all_recorded(), *all_failing_examples())]
    healthy: list[tuple[str, str, Any]] = [(h.name, "", h.make) for h in all_healthy()]
    for index in range(max(len(failing), len(healthy))):  # in turns, so that a run that is stopped has some of both
        yield from (side[index] for side in (failing, healthy) if index < len(side))


def measure(margins: Margins, effort: str, checks: list[str]) -> int:
    """Go through the set-ups, or the failing examples of these checks alone; return how many were judged."""
    done = 0
    for name, failing, make in set_ups():
        if checks and failing not in checks:
            continue
        margins.name, margins.failing = name, failing
        torch.manual_seed(0)
        try:
            setup = make()
            if "recording" in setup:
                judged(setup["recording"])
            else:
                only = {"checks": [failing]} if failing else {}
                some = "normal" if failing else effort
                nbdebug.diagnose(**setup, **only, effort=some, tell_apart=False, progress=False)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
        done += 1
        if not checks:
            write(margins, done)
    return done


def write(margins: Margins, done: int) -> None:
    """Store the margins measured so far."""
    data = {
        check: {t: {side: dataclasses.asdict(m) for side, m in sides.items()} for t, sides in thresholds.items()}
        for check, thresholds in sorted(margins.of.items())
    }
    RESULTS.write_text(json.dumps({"set_ups": done, "margins": data}, indent=1, sort_keys=True) + "\n")


def replace_failing(margins: Margins) -> None:
    """Put what was measured of failing examples in place of what is stored."""
    stored = json.loads(RESULTS.read_text())
    for check, thresholds in margins.of.items():
        for threshold, sides in thresholds.items():
            kept = stored["margins"].setdefault(check, {}).setdefault(threshold, {})
            kept["failing"] = dataclasses.asdict(sides["failing"])
    RESULTS.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Measure the margins and store them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--effort", default="normal", choices=("quick", "normal"), help="of the healthy set-ups")
    options.add_argument("--checks", nargs="*", default=[], help="measure their failing examples anew, no others")
    given = options.parse_args()
    margins = Margins()
    listening(margins)
    print(measure(margins, given.effort, given.checks), "set-ups")
    if given.checks:
        replace_failing(margins)


if __name__ == "__main__":
    main()
