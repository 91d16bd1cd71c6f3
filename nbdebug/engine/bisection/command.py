"""The command `python -m nbdebug bisect`: two set-ups, or one set-up in two revisions of a Git repository."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.core.options import check_time_limit
from nbdebug.core.streams import clean_stdout
from nbdebug.errors import BadInput

if TYPE_CHECKING:
    from nbdebug.engine.bisection.result import Bisection
    from nbdebug.engine.bisection.revisions.answer import RevisionBisection

__all__ = ["add_bisect"]

FINE, FAILS, NO_ANSWER, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES = """\
exit codes:
  0    both learn: there is nothing to explain
  1    bad fails; the answer says why, as far as that was found
  2    invalid call, or no answer: good does not learn either, or the two cannot be compared
  130  interrupted; what was known by then is written
"""
ABOUT = """\
Find what makes one set-up fail where another one learns. Name two functions that return the arguments of
nbdebug.diagnose, or one with two revisions of the Git repository that this is called in:

  python -m nbdebug bisect good_module:make_setup bad_module:make_setup
  python -m nbdebug bisect training.setup:make_setup --good v1.2 --bad HEAD

Revisions are written into temporary folders; your work tree and your repository stay as they are.
"""


def add_bisect(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "bisect",
        help="find what makes one set-up or revision fail, where another one learns",
        description=ABOUT,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("setup", metavar="MODULE:FUNCTION", help="the set-up that learns, or the one of both revisions")
    parser.add_argument(
        "other", metavar="MODULE:FUNCTION", nargs="?", help="the one that does not; none with revisions"
    )
    parser.add_argument("--good", metavar="REV", help="the revision that learns")
    parser.add_argument("--bad", metavar="REV", help="the revision that does not, such as HEAD")
    parser.add_argument(
        "--metric", metavar="MODULE:FUNCTION", default="", help="metric(model, batches), higher is better"
    )
    parser.add_argument("--steps", type=int, help="the steps of each training; without it, good says how many")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="of everything; without it, to the end")
    parser.add_argument(
        "--link", action="append", default=[], metavar="PATH", help="files that no revision holds, such as data"
    )
    parser.add_argument("--walk", action="store_true", help="walk the commits, and exchange nothing")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="what standard output holds")
    parser.add_argument("--save", type=Path, action="append", default=[], metavar="PATH", help=".html or .json")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.set_defaults(run=_bisect)


def _bisect(options: argparse.Namespace) -> int:
    check_time_limit(options.time_limit)
    _check_call(options)
    with clean_stdout(True), _ending_as_interrupted():
        result = _of_revisions(options) if options.good else _of_two(options)
    text = json.dumps(result.to_dict(), allow_nan=False, indent=1) if options.format == "json" else str(result)
    sys.stdout.write(f"{text}\n")
    for path in options.save:
        result.save(path)
    if result.stopped == "interrupted":
        return INTERRUPTED
    codes = {"both learn": FINE, "slower": FINE} | dict.fromkeys(
        ("explained", "not explained", "nothing differs"), FAILS
    )
    return codes.get(result.outcome, NO_ANSWER)


def _check_call(options: argparse.Namespace) -> None:
    """Refuse a call that names neither two functions nor one with two revisions."""
    named = [bool(options.other), bool(options.good), bool(options.bad)]
    if named not in ([True, False, False], [False, True, True]):
        raise BadInput(
            "it names neither two set-ups nor one with two revisions",
            where="bisect",
            expected="MODULE:FUNCTION MODULE:FUNCTION, or MODULE:FUNCTION --good REV --bad REV",
            do="see python -m nbdebug bisect --help",
        )


@contextmanager
def _ending_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that temporary folders are removed then, too."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _of_two(options: argparse.Namespace) -> Bisection:
    from nbdebug.core.entry_point import imported
    from nbdebug.engine.bisection.bisecting import bisect

    metric: Any = imported(options.metric) if options.metric else None
    return bisect(
        options.setup,
        options.other,
        metric=metric,
        steps=options.steps,
        time_limit=options.time_limit,
        progress=not options.quiet,
    )


def _of_revisions(options: argparse.Namespace) -> RevisionBisection:
    from nbdebug.core.journal import Event
    from nbdebug.engine.bisection.revisions.bisecting import bisect_revisions
    from nbdebug.report.progress import progress_line

    with progress_line("bisecting", shown=not options.quiet) as listen:
        return bisect_revisions(
            options.setup,
            options.good,
            options.bad,
            metric=options.metric,
            steps=options.steps,
            time_limit=options.time_limit,
            links=options.link,
            walks=options.walk,
            hear=lambda fraction, text: listen(Event("probe-started", "bisect", fraction, text)),
        )
