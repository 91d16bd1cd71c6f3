"""The command line, for scripts and CI: `python -m nbdebug diagnose package.module:make_setup --fail-on bug`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nbdebug.core.control import EFFORTS
from nbdebug.core.streams import clean_stdout
from nbdebug.engine.bisection.command import add_bisect
from nbdebug.errors import NbdebugError

if TYPE_CHECKING:
    from nbdebug.report import Report

__all__ = ["main"]

FORMATS = ("text", "json", "markdown", "sarif")
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
    diagnose.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="what standard output holds; in all but text nothing else: your own prints go to stderr",
    )
    diagnose.add_argument("--json", type=Path, metavar="PATH", help="write the report as JSON")
    diagnose.add_argument("--save", type=Path, action="append", default=[], metavar="PATH", help=".html, .ipynb, …")
    diagnose.add_argument("--checks", metavar="ID,ID", help="run only these checks")
    diagnose.add_argument("--skip", metavar="ID,ID", default="", help="skip these checks")
    diagnose.add_argument("--symptom", metavar="WORDS", help='what is wrong, for example "loss is NaN"')
    diagnose.add_argument(
        "--effort",
        choices=EFFORTS,
        help="quick: nothing that trains; normal (the default): about a minute at most; thorough: no limit",
    )
    diagnose.add_argument("--quick", action="store_true", help="the same as --effort quick")
    diagnose.add_argument("--time-limit", type=float, metavar="SECONDS", help="another limit than that of the effort")
    diagnose.add_argument("--seed", type=int)
    diagnose.add_argument("--quiet", action="store_true", help="no progress bar on stderr")
    diagnose.set_defaults(run=_diagnose)
    add_bisect(commands)
    explain = commands.add_parser("explain", help="explain a check")
    explain.add_argument("check")
    explain.set_defaults(run=_explain)
    tree = commands.add_parser("tree", help="draw the decision tree")
    tree.add_argument("--symptom", metavar="WORDS", help="number the steps that run first for this symptom")
    tree.set_defaults(run=_tree)
    mcp = commands.add_parser(
        "mcp",
        help="serve the checks to an assistant, over standard input and output",
        description="Serve the checks as tools of the Model Context Protocol, over standard input and output; a client "
        "starts this command itself. Programs are run in a child process. No port is opened.",
    )
    mcp.add_argument(
        "--root", type=Path, default=Path(), metavar="DIR", help="the project; files elsewhere are refused"
    )
    mcp.add_argument("--time-limit", type=float, default=300.0, metavar="SECONDS", help="the longest call (300)")
    mcp.add_argument("--include-samples", action="store_true", help="let answers show samples of the data")
    mcp.set_defaults(run=_mcp)
    schema = commands.add_parser("schema", help="print the JSON schema of a report, or of a bisection")
    schema.add_argument("of", choices=("report", "bisection"), nargs="?", default="report")
    schema.set_defaults(run=_schema)
    listing = commands.add_parser("checks", help="list every check")
    listing.set_defaults(run=_list)
    return parser


def _diagnose(options: argparse.Namespace) -> int:
    from nbdebug.report.writing import as_json

    with clean_stdout(options.format != "text"):
        report = _report(options)
    _print_as(report, options.format)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(as_json(report), encoding="utf-8")
    for path in options.save:
        report.save(path)
    if report.stopped == "interrupted":
        return INTERRUPTED
    grave = {"never": (), "bug": ("bug",), "suspect": ("bug", "suspect"), "note": ("bug", "suspect", "note")}
    return FOUND if any(finding.severity in grave[options.fail_on] for finding in report.findings) else 0


def _report(options: argparse.Namespace) -> Report:
    import nbdebug
    from nbdebug.core.entry_point import setup_from

    chosen = {"checks": options.checks.split(",")} if options.checks else {}
    if options.skip:
        chosen["skip"] = [check for check in options.skip.split(",") if check]
    named = {name: getattr(options, name) for name in ("effort", "time_limit", "symptom", "seed")}
    if options.quick:
        named["effort"] = "quick"
    given = {name: value for name, value in named.items() if value is not None}
    return nbdebug.diagnose(**{**setup_from(options.setup), **chosen, **given, "progress": not options.quiet})


def _print_as(report: Report, form: str) -> None:
    from nbdebug.report.sarif import as_sarif
    from nbdebug.report.writing import as_json

    if form == "text":
        report.show()
        return
    text = as_json(report) if form == "json" else as_sarif(report) if form == "sarif" else report.to_markdown()
    print(text.rstrip("\n"))


def _mcp(options: argparse.Namespace) -> int:
    from nbdebug.core.options import check_time_limit
    from nbdebug.errors import BadInput

    check_time_limit(options.time_limit)
    if not options.root.is_dir():
        raise BadInput(
            "there is no such folder", where=f"--root {options.root}", expected="a folder", do="check the path"
        )
    try:
        from nbdebug.integrations.mcp.server import serve
    except ModuleNotFoundError as error:
        what = 'pip install "nbdebug-torch[mcp]"'
        raise BadInput(f"there is no module {error.name!r}", where="nbdebug mcp", expected="mcp 2", do=what) from error
    serve(options.root, time_limit=options.time_limit, include_samples=options.include_samples)
    return 0


def _schema(options: argparse.Namespace) -> int:
    from nbdebug.report.schema import bisection_schema, report_schema

    print(
        json.dumps({"report": report_schema, "bisection": bisection_schema}[options.of](), indent=2, ensure_ascii=False)
    )
    return 0


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
