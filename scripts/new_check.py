"""Begin a check: its file, its tests and its line in the tree (`make new-check NAME=my-bug`).

What it writes works from the first minute, with a condition that is real but arbitrary; every place that waits for a
decision says TODO.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = Path(__file__).resolve().parent / "templates"
SPELLING = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
STEP, FOLDER = "one-pass", "passes"


def main() -> int:
    """Write the pieces, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="the problem in two or more words, for example my-bug")
    name = parser.parse_args().name
    trouble = why_not(name)
    if trouble:
        print(f"new-check: {trouble}\nNothing was written.", file=sys.stderr)
        return 2
    tree, line = line_of_tree(name)
    for path, template in pieces(name).items():
        path.write_text(filled(template, name), encoding="utf-8")
    tree.write_text(line, encoding="utf-8")
    print(next_steps(name, tree))
    return 0


def why_not(name: str) -> str:
    """Say what is wrong with a name; empty if it can be used."""
    if not SPELLING.fullmatch(name):
        near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        hint = f"; perhaps {near}" if SPELLING.fullmatch(near) and near != name else ""
        return f"{name!r} is not the name of a check: small letters, two or more words, joined by hyphens{hint}."
    known = [path.relative_to(ROOT).as_posix() for path in pieces(name) if path.exists()]
    known += [path.relative_to(ROOT).as_posix() for path in (ROOT / "nbdebug" / "checks").glob(f"*/{stem(name)}.py")]
    known = sorted(set(known))
    return f"{name} is there already: {' and '.join(known)}." if known else ""


def pieces(name: str) -> dict[Path, str]:
    """Return the files that are written, each with its template."""
    return {
        ROOT / "nbdebug" / "checks" / FOLDER / f"{stem(name)}.py": "check.py.txt",
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


def line_of_tree(name: str) -> tuple[Path, str]:
    """Put the check behind those of the step that runs one batch through the model; give the file and its new text."""
    for path in sorted((ROOT / "nbdebug" / "engine" / "decision_tree").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        step = re.search(rf'Step\(\s*"{STEP}",.*?\n(?P<indent> +)\((?P<checks>[^()]*)\)', text, re.DOTALL)
        if step:
            inner = step["indent"] + "    "
            known = step["checks"].rstrip()
            if "\n" not in step["checks"]:  # all on one line so far
                known = "".join(f'\n{inner}"{check}",' for check in re.findall(r'"([^"]+)"', known))
            line = f'\n{inner}"{name}",  # TODO: move it to the step whose question it answers'
            return path, f"{text[: step.start('checks')]}{known}{line}\n{step['indent']}{text[step.end('checks') :]}"
    raise SystemExit(
        f"new-check: the step {STEP!r} was not found in nbdebug/engine/decision_tree/. Nothing was written."
    )


def next_steps(name: str, tree: Path) -> str:
    """Say what was written and what is left to do."""
    check, test, verdicts = (path.relative_to(ROOT).as_posix() for path in pieces(name))
    return f"""Written:
  {check}: the condition, its evidence, its threshold and its documentation; move it to the folder of its stage
  {test}: two failing examples, and what must not raise it
  {verdicts}: evidence on both sides of its threshold, with the verdict on each
  {tree.relative_to(ROOT).as_posix()}: one line; move it to the step whose question it answers

It works already, with a condition that stands for yours. Now:
  1. Replace everything marked TODO. `nbdebug/evidence/` has what a check can ask for.
  2. .venv/bin/python -m pytest {test} tests/test_verdicts.py tests/test_every_check.py -k "{name} or {stem(name)}"
  3. make docs, then make test"""


if __name__ == "__main__":
    sys.exit(main())
