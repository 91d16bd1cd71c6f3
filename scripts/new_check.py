"""Begin a check: its file, its tests and its line in the tree (`make new-check NAME=my-bug STEP=one-pass`).

What it writes works from the first minute, with a condition that is real but arbitrary; every place that waits for a
decision says TODO.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = Path(__file__).resolve().parent / "templates"
SPELLING = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
FOLDERS = {"data": "data", "run": "passes", "start": "loss", "learn": "optimization", "watch": "live"}  # by stage
STEP = re.compile(r'Step\(\s*"(?P<id>[a-z-]+)",(?:(?!Step\().)*?\n(?P<indent> +)\((?P<checks>[^()]*)\)', re.DOTALL)


def main() -> int:
    """Write the pieces, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the problem in two or more words, for example my-bug")
    parser.add_argument("step", nargs="?", default="one-pass", help="the step of the tree whose question it answers")
    given = parser.parse_args()
    trouble = why_not(given.name, given.step)
    if trouble:
        print(f"new-check: {trouble}\nNothing was written.", file=sys.stderr)
        return 2
    tree, folder, text = steps_of_tree()[given.step]
    written = pieces(given.name, folder)
    for path, template in written.items():
        path.write_text(filled(template, given.name), encoding="utf-8")
    tree.write_text(text(given.name), encoding="utf-8")
    print(next_steps(given.name, [*written, tree]))
    return 0


def why_not(name: str, step: str) -> str:
    """Say what is wrong with a name or a step; empty if both can be used."""
    if not SPELLING.fullmatch(name):
        near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        hint = f"; perhaps {near}" if SPELLING.fullmatch(near) and near != name else ""
        return f"{name!r} is not the name of a check: small letters, two or more words, joined by hyphens{hint}."
    places = {path for folder in FOLDERS.values() for path in pieces(name, folder)}
    known = sorted(path.relative_to(ROOT).as_posix() for path in places if path.exists())
    if known:
        return f"{name} is there already: {' and '.join(known)}."
    steps = steps_of_tree()
    return "" if step in steps else f"there is no step {step!r} with checks; take one of {', '.join(steps)}."


def pieces(name: str, folder: str) -> dict[Path, str]:
    """Return the files that are written, each with its template."""
    return {
        ROOT / "nbdebug" / "checks" / folder / f"{stem(name)}.py": "check.py.txt",
        ROOT / "tests" / "checks" / f"test_{stem(name)}.py": "test_check.py.txt",
        ROOT / "tests" / "verdicts" / f"{stem(name)}.py": "verdicts.py.txt",
    }


def stem(name: str) -> str:
    """Return the name of the function and of its file."""
    return name.replace("-", "_")


def filled(template: str, name: str) -> str:
    """Put the name into a template."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return Template(text).substitute(id=name, function=stem(name), words=name.replace("-", " "))


def steps_of_tree() -> dict[str, tuple[Path, str, Callable[[str], str]]]:
    """Return for each step with checks its file, the folder of its checks, and the file's text with one check more."""
    found: dict[str, tuple[Path, str, Callable[[str], str]]] = {}
    for path in sorted((ROOT / "nbdebug" / "engine" / "decision_tree").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        stages = [(match.start(), match[1]) for match in re.finditer(r'Stage\(\s*"([a-z]+)"', text)]
        for step in STEP.finditer(text):
            stage = next((stage for start, stage in reversed(stages) if start < step.start()), "")
            if stage in FOLDERS:
                found[step["id"]] = path, FOLDERS[stage], partial(with_check, text, step)
    return found


def with_check(text: str, step: re.Match[str], name: str) -> str:
    """Return a file of the tree with a check behind those of a step."""
    inner = step["indent"] + "    "
    known = step["checks"].rstrip()
    if "\n" not in step["checks"]:  # all on one line so far
        known = "".join(f'\n{inner}"{check}",' for check in re.findall(r'"([^"]+)"', known))
    return f'{text[: step.start("checks")]}{known}\n{inner}"{name}",\n{step["indent"]}{text[step.end("checks") :]}'


def next_steps(name: str, written: list[Path]) -> str:
    """Say what was written and what is left to do."""
    check, test, verdicts, tree = (path.relative_to(ROOT).as_posix() for path in written)
    return f"""Written:
  {check}: the condition, its evidence, its threshold and its documentation
  {test}: two failing examples, and what must not raise it
  {verdicts}: evidence on both sides of its threshold, with the verdict on each
  {tree}: one line, in the step whose question it answers

It works already, with a condition that stands for yours. Now:
  1. Replace everything marked TODO. `nbdebug/evidence/__init__.py` lists what a check can ask for, by question.
  2. .venv/bin/python -m pytest {test} tests/test_verdicts.py tests/test_every_check.py -k "{name} or {stem(name)}"
  3. A line in CHANGELOG.md, then make docs, then make test"""


if __name__ == "__main__":
    sys.exit(main())
