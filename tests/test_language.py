"""User-facing text uses the vocabulary of PyTorch and American spelling."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdebug.core.registry import registry
from nbdebug.engine.decision_tree import TREE, questions, symptoms

ROOT = Path(__file__).parent.parent

# Each word is a pattern; what to write instead is the reason given when it is found.
INSTEAD = {
    r"illness(es)?|\bpatients?\b": "bug, problem, failing example",
    r"\bcured?\b|\bcures\b|\bheal(s|ed)?\b|\bmend(s|ed)?\b": "fix, fixed",
    r"by heart": "overfit a single batch",
    r"\b(no|some)body\b": "name who or what is meant",
    r"\bway back\b": "backward pass",
    r"\b(put|puts|putting) back\b": "restore",
    r"\bha(s|ve) a say\b": "affects",
    r"\bby hand\b": "custom, manually",
    r"\bslopes?\b": "gradient, derivative",
    r"\blikeliest\b": "most likely",
    r"(normal|initial|memor|optim|regular|general|summar|synthes|recogn|parametr|serial|synchron)is(e|ing|ation)": (
        "American spelling: -ize, -ization"
    ),
    r"\b(colour|behaviour|neighbour|favour|labell|modell|travell|cancelled|cancelling|grey)": "American spelling",
}


DATA = {"cures alone"}  # keys of saved reports


def python_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every string constant with a space in it, except docstrings of private functions and classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    private = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and node.name.startswith("_")
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if " " in text.strip() and id(node) not in private:  # a single word is an id, a key or a name in code
            yield node.lineno, text


def markup_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the string literals of TypeScript with a space in them, and the lines of a template, without comments."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        code = re.sub(r"^\s*(//|\*|/\*).*|\s//\s.*|\b(id|href|class|aria-labelledby)=\"[^\"]*\"", "", line)
        found = re.findall(r"\"[^\"]*\"|`[^`]*`", code) if path.suffix == ".ts" else [code]
        yield from ((number, text) for text in found if " " in text.strip())


def texts() -> Iterator[tuple[str, str]]:
    """Yield every user-facing text of the covered files, with its place."""
    readers = {".py": python_texts, ".html": markup_texts, ".ts": markup_texts}
    for folder in ("nbdebug", "js/src"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in readers and "static" not in path.parts:
                for line, text in readers[path.suffix](path):
                    yield f"{path.relative_to(ROOT)}:{line}", text


def ids() -> list[str]:
    """Return the ids of checks, steps and questions, which are data and may be spelled in the old way."""
    registry.load("nbdebug.checks")
    known = {*registry.checks, *(alias for spec in registry.checks.values() for alias in spec.aliases)}
    known |= {step.id for stage in TREE for step in stage.steps} | {question.id for question in questions()}
    return sorted((name for name in known if "-" in name), key=len, reverse=True)


@pytest.mark.parametrize("pattern", INSTEAD, ids=lambda pattern: pattern[:20])
def test_private_words_stay_out(pattern: str) -> None:
    """None of the words of the glossary's left column is shown to a user."""
    names = re.compile("|".join([r"`[^`]*`", *map(re.escape, ids())]))  # code and data keep their names
    word = re.compile(pattern, re.IGNORECASE)
    found = [
        f"{place}: {text.strip()[:160]!r}"
        for place, text in texts()
        if text not in DATA and word.search(names.sub("", text))
    ]
    assert not found, f"write instead: {INSTEAD[pattern]}\n" + "\n".join(found)


# Private words that no module, class or function is called; statistics has its slopes.
PRIVATE = {
    *("witness", "belongings", "holdings", "birth", "births", "mishap", "mishaps", "outlet", "outlets", "luck", "ill"),
    *("illness", "patient", "patients", "cure", "cured", "heal", "mend", "mended", "slope", "slopes", "postmortem"),
    *("reins", "hush", "arbitration", "twin", "twins", "nobody", "somebody", "heart", "furnish"),
}
REGRESSION = {"quantile_slopes"}


def test_private_words_are_no_names() -> None:
    """Modules, classes and functions are called by the words of the field."""
    found = []
    for path in sorted((ROOT / "nbdebug").rglob("*.py")):
        defined = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        for name in {path.stem, *(node.name for node in defined)} - REGRESSION:
            words = set(re.findall(r"[a-z]+", re.sub(r"([A-Z])", r"_\1", name).lower()))
            found += [f"{path.relative_to(ROOT)}: {name}"] if words & PRIVATE else []
    assert not found, found


def test_labels_are_short_noun_phrases() -> None:
    """One to four words, sentence case, no punctuation at the end; the question is a sentence."""
    for stage in TREE:
        assert len(stage.title.split()) <= 4 and stage.title[0].isupper() and stage.title[-1].isalnum()
        for step in stage.steps:
            assert len(step.label.split()) <= 4 and step.label[0].isupper() and step.label[-1].isalnum()
            assert step.question.endswith("?") and step.why.endswith(".")
    labels = [step.label for stage in TREE for step in stage.steps]
    assert len(labels) == len(set(labels))


def test_probes_are_titled_by_what_they_do() -> None:
    """Progress shows the title of a probe: one line that begins with an imperative verb."""
    registry.load("nbdebug.checks")
    for probes in (registry.probes, registry.readers):
        for spec in probes.values():
            assert len(spec.title) <= 100, spec.title
            assert spec.title.split()[0] not in {"Give", "Say", "Let", "See", "Tell"}, spec.title


def test_symptoms_are_described_in_sentences() -> None:
    """What the user chooses from has a help text."""
    assert all(symptom.about.endswith(".") for symptom in symptoms())
