"""Which constants of the package are seconds, and why each of them decides no verdict."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path("nbdebug")
SHOWN = "how often something is shown or looked at"
WAITS = "how long another process is waited for; who is not heard is named"
TRIED = "how much is tried; what is not is reported as not tried"
MEASURED = "how often layers are measured; what is measured is the same"
ASKED = "the user's own measure of what is slow; it is about time by its nature"

SECONDS = {
    "nbdebug/engine/bisection/revisions/child.py": {"GRACE": WAITS},
    "nbdebug/checks/data/worker_rng_duplicates.py": {"TIMEOUT": WAITS},
    "nbdebug/checks/optimization/loading_bottleneck.py": {"seconds": ASKED, "noticed": ASKED},
    "nbdebug/core/control.py": {"INTERACTIVE": TRIED},
    "nbdebug/core/work_clock.py": {"REFRESH": SHOWN},
    "nbdebug/core/torch_compat.py": {"seconds": WAITS},
    "nbdebug/setup/distributed/meeting.py": {"ARRIVAL": WAITS, "LOOK": SHOWN},
    "nbdebug/engine/all_ranks.py": {"PATIENCE": WAITS},
    "nbdebug/core/options.py": {"sweep_seconds": TRIED},
    "nbdebug/improve/analysis.py": {"seconds": TRIED},
    "nbdebug/improve/decomposition.py": {"seconds": TRIED},
    "nbdebug/improve/scoring.py": {"seconds": TRIED},
    "nbdebug/improve/starting.py": {"seconds": TRIED},
    "nbdebug/integrations/mcp/child.py": {"GRACE": WAITS, "LOOK": SHOWN},
    "nbdebug/watch/recorder/budget.py": {"CREDIT": MEASURED, "REFRESH": MEASURED, "PATIENCE": MEASURED},
    "nbdebug/watch/recorder/recorder.py": {"HEARD": SHOWN, "UNHEARD": SHOWN, "WEIGHED": SHOWN},
    "nbdebug/setup/__init__.py": {"sweep_seconds": TRIED},
    "nbdebug/watch/live.py": {"REFRESH": SHOWN},
    "nbdebug/watch/ranks.py": {"PATIENCE": WAITS},
    "nbdebug/widgets/charts.py": {"AT_MOST_EVERY": SHOWN},
    "nbdebug/widgets/pictures.py": {"SETTLING": SHOWN, "STATIC_EVERY": SHOWN},
}


def names_of(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield what a statement or a signature gives a value, with that value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from (
                    (e.id, v) for e, v in zip(target.elts, node.value.elts, strict=True) if isinstance(e, ast.Name)
                )
            elif isinstance(target, ast.Name):
                yield target.id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node.value
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        yield from (
            (a.arg, d) for a, d in zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)
        )
        yield from ((a.arg, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d is not None)
    elif isinstance(node, ast.Call):
        yield from ((k.arg, k.value) for k in node.keywords if k.arg in ("seconds", "timeout"))


def seconds_in(path: Path) -> set[str]:
    """Return the constants of a file that are named or commented as seconds, and are not zero."""
    with path.open("rb") as file:
        comments = [token for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]
    told = {token.start[0] for token in comments if re.search(r"\bseconds\b|every second\b", token.string)}
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        for name, value in names_of(node):
            is_number = isinstance(value, ast.Constant) and type(value.value) in (int, float) and value.value != 0
            if is_number and ("seconds" in name or "timeout" in name.lower() or value.lineno in told):  # type: ignore[union-attr]
                found.add(name)
    return found


def test_every_constant_of_seconds_is_known_and_decides_no_verdict() -> None:
    found = {str(path): seconds_in(path) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {path: names for path, names in found.items() if names} == {
        path: set(names) for path, names in SECONDS.items()
    }


def test_a_new_constant_of_seconds_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "new.py"
    path.write_text("WAIT = 3  # seconds\nSTEPS = 4\ndef f(*, timeout=2.0, n=5): ...\nA, B = 1, 2  # seconds, both\n")
    assert seconds_in(path) == {"WAIT", "timeout", "A", "B"}
