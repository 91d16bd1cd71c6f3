"""The command line, for scripts and CI: `python -m nbdebug diagnose package.module:make_setup --fail-on bug`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbdebug.core.control import EFFORTS
from nbdebug.errors import BadInput, NbdebugError

__all__ = ["main"]

FOUND, BAD_CALL, INTERRUPTED = 1, 2, 130
EXIT_CODES = """\
exit codes:
  0    no finding of at least the severity --fail-on
  1    at least one such finding
  2    invalid call: the function cannot be imported, or its return value is invalid
  130  interrupted; findings up to then are reported
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except NbdebugError as error:
        print(f"nbdebug: {error}", file=sys.stderr)
        return BAD_CALL


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nbdebug", description="A debugger for neural networks.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    diagnose = commands.add_parser(
        "diagnose",
        help="diagnose the setup that your function returns",
        description="Import a function that returns a dict of the arguments of nbdebug.diagnose, and diagnose it.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    diagnose.add_argument("setup", metavar="MODULE:FUNCTION", help="for example training.setup:make_setup")
    diagnose.add_argument("--fail-on", choices=("bug", "suspect", "note", "never"), default="bug")
    diagnose.add_argument("--json", type=Path, metavar="PATH", help="write the report as JSON")
    diagnose.add_argument("--save", type=Path, action="append", default=[], metavar="PATH", help=".html, .ipynb, …")
    diagnose.add_argument("--checks", metavar="ID,ID", help="run only these checks")
    diagnose.add_argument("--skip", metavar="ID,ID", default="", help="skip these checks")
    diagnose.add_argument("--symptom", metavar="WORDS", help='what is wrong, for example "loss is NaN"')
    diagnose.add_argument(
        "--effort",
        choices=EFFORTS,
        default="normal",
        help="quick: nothing that trains; normal: about a minute at most; thorough: no limit",
    )
    diagnose.add_argument("--quick", action="store_true", help="the same as --effort quick")
    diagnose.add_argument("--time-limit", type=float, metavar="SECONDS", help="another limit than that of the effort")
    diagnose.add_argument("--seed", type=int, default=0)
    diagnose.add_argument("--quiet", action="store_true", help="no progress bar on stderr")
    diagnose.set_defaults(run=_diagnose)
    explain = commands.add_parser("explain", help="explain a check")
    explain.add_argument("check")
    explain.set_defaults(run=_explain)
    tree = commands.add_parser("tree", help="draw the decision tree")
    tree.add_argument("--symptom", metavar="WORDS", help="number the steps that run first for this symptom")
    tree.set_defaults(run=_tree)
    listing = commands.add_parser("checks", help="list every check")
    listing.set_defaults(run=_list)
    return parser


def _diagnose(options: argparse.Namespace) -> int:
    import nbdebug
    from nbdebug.report.writing import as_json

    setup = _made(options.setup)
    chosen = {"checks": options.checks.split(",")} if options.checks else {}
    report = nbdebug.diagnose(
        **setup,
        **chosen,
        skip=[check for check in options.skip.split(",") if check],
        effort="quick" if options.quick else options.effort,
        time_limit=options.time_limit,
        symptom=options.symptom,
        seed=options.seed,
        progress=not options.quiet,
    )
    report.show()
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(as_json(report), encoding="utf-8")
    for path in options.save:
        report.save(path)
    if report.stopped == "interrupted":
        return INTERRUPTED
    grave = {"never": (), "bug": ("bug",), "suspect": ("bug", "suspect"), "note": ("bug", "suspect", "note")}
    return FOUND if any(finding.severity in grave[options.fail_on] for finding in report.findings) else 0


def _made(name: str) -> dict[str, Any]:
    """Import the function and call it; whatever goes wrong there is the user's to read, in one message."""
    function = _imported(name)
    try:
        setup = function()
    except Exception as error:
        raise _bad(
            name, f"the function raised {type(error).__name__}: {error}", "call it separately and fix it"
        ) from error
    if not isinstance(setup, dict) or not {"model", "loader"} <= set(setup):
        seen = f"it returned a {type(setup).__name__}" + (
            f" with {', '.join(map(str, setup))}" if isinstance(setup, dict) else ""
        )
        raise _bad(name, seen, 'return {"model": …, "loader": …, "loss_fn": …, "optimizer": …}')
    return setup


def _imported(name: str) -> Callable[[], Any]:
    module, _, attribute = name.partition(":")
    if not attribute:
        raise _bad(name, "it has no colon", "write package.module:function")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        raise _bad(name, f"there is no module {error.name!r}", "run this where the module can be imported") from error
    except AttributeError as error:
        raise _bad(name, str(error), "name a function of that module") from error
    except Exception as error:
        raise _bad(
            name, f"importing it raised {type(error).__name__}: {error}", "import it separately and fix it"
        ) from error
    if not callable(found):
        raise _bad(name, f"it is a {type(found).__name__}", "name a function that returns a dict")
    return found  # type: ignore[no-any-return]


def _bad(name: str, seen: str, do: str) -> BadInput:
    return BadInput(
        seen, where=name, expected="a function that returns a dict of the arguments of nbdebug.diagnose", do=do
    )


def _tree(options: argparse.Namespace) -> int:
    import nbdebug

    print(nbdebug.tree(symptom=options.symptom))
    return 0


def _explain(options: argparse.Namespace) -> int:
    import nbdebug

    print(nbdebug.explain(options.check))
    return 0


def _list(options: argparse.Namespace) -> int:
    from nbdebug.engine.explanation import explain, list_checks

    for check in list_checks():
        print(f"{check:36} {explain(check).title}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
