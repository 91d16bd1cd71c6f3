"""`%load_ext nbdebug`: the wizard, a diagnosis, an explanation and a report as magics."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

__all__ = ["NbdebugMagics", "load_ipython_extension", "unload_ipython_extension"]

USAGE = """\
%nbdebug wizard MODEL LOADER [LOSS_FN] [OPTIMIZER]    open the guided troubleshooting cell
%nbdebug diagnose MODEL LOADER [LOSS_FN] [OPTIMIZER]  run every check and show the report
                                                      (--effort quick|normal|thorough, --time-limit SECONDS)
%nbdebug batch LOADER [MODEL] [LOSS_FN]               show a batch as the model receives it
%nbdebug tree                                         draw the decision tree with the newest report
%nbdebug explain ID                                   explain a check
%nbdebug explain-error                                explain the last exception and how to fix it
%nbdebug report PATH                                  save the newest report as .html, .ipynb or .json
%%watch MODEL [OPTIMIZER] [--every N] [--budget X]    record the training in the cell, as `live`
"""
NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
OPTIONS: dict[str, Callable[[str], Any]] = {"--every": int, "--budget": float}


@magics_class
class NbdebugMagics(Magics):
    """The magic `%nbdebug`; names are looked up among the notebook's variables."""

    newest: Any = None  # the wizard or the report that was made last

    @line_magic
    def nbdebug(self, line: str) -> Any:
        """Run `%nbdebug wizard|diagnose|batch|tree|explain|explain-error|report …`."""
        command, *rest = line.split() or [""]
        action = getattr(self, f"_{command.replace('-', '_')}", None) if f"%nbdebug {command} " in USAGE else None
        if action is None:
            raise UsageError(f"%nbdebug {command or '…'}: expected one of\n{USAGE}")
        return action(rest)

    @cell_magic
    def watch(self, line: str, cell: str) -> Any:
        """Run the cell with `%%watch MODEL [OPTIMIZER]`: its training is recorded, and left in the variable `live`.

        In a notebook the curves stand above what the cell prints and follow it. `--every N` measures the layers
        at every Nth step, `--budget X` says which share of the time measuring may take.
        """
        __tracebackhide__ = True  # what goes wrong is in the cell
        import nbdebug
        from nbdebug.views.output import in_notebook

        names, options = _watch_line(line)
        if self.shell is None or not 1 <= len(names) <= 2:
            raise UsageError("%%watch takes one or two names: MODEL [OPTIMIZER], and the training in the cell below it")
        parts = self._compiled(cell)
        live = nbdebug.watch(*self._known("%%watch", names), **options)
        self.shell.user_ns["live"] = self.newest = live
        try:
            with live:
                for part in parts:
                    exec(part, self.shell.user_ns)
        except BaseException:
            steps = f"{live.step} step{'' if live.step == 1 else 's'}"
            sys.stdout.write(f"`live` holds the recording up to the end of the cell: {steps}.\n")
            raise
        return None if in_notebook() else live

    def _compiled(self, cell: str) -> list[Any]:
        """Compile a cell as the notebook would: under its number, and with its last expression to be displayed."""
        assert self.shell is not None
        code = "\n" + self.shell.transform_cell(cell)  # the line of the magic counts, too
        number = self.shell.displayhook.prompt_count  # unlike the counter, the same in every version of IPython
        name = self.shell.compile.cache(code, number, raw_code=cell)
        tree = self.shell.transform_ast(self.shell.compile.ast_parse(code, filename=name))
        shown = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
        parts = [(tree, "exec"), *((ast.Interactive([node]), "single") for node in shown)]
        return [self.shell.compile(part, name, mode) for part, mode in parts]

    def _wizard(self, names: list[str]) -> Any:
        import nbdebug

        given, options = _diagnose_words(names)
        self.newest = nbdebug.wizard(*self._values("wizard", given), **options)
        return self.newest

    def _diagnose(self, names: list[str]) -> Any:
        import nbdebug

        given, options = _diagnose_words(names)
        self.newest = nbdebug.diagnose(*self._values("diagnose", given), **options)
        return self.newest

    def _batch(self, names: list[str]) -> Any:
        import nbdebug

        return nbdebug.show_batch(*self._values("batch", names, "LOADER [MODEL] [LOSS_FN]", 1, 3))

    def _tree(self, names: list[str]) -> Any:
        import nbdebug

        if names:
            raise UsageError("%nbdebug tree takes no arguments; nbdebug.tree(report) draws another report")
        return nbdebug.tree(self._newest_report())

    def _explain(self, names: list[str]) -> Any:
        import nbdebug

        if len(names) != 1:
            raise UsageError("%nbdebug explain takes the id of one check, for example: %nbdebug explain dead-units")
        return nbdebug.explain(names[0])

    def _explain_error(self, names: list[str]) -> Any:
        import nbdebug

        if names:
            raise UsageError("%nbdebug explain-error takes no arguments: it explains the last exception")
        return nbdebug.explain_error()

    def _report(self, names: list[str]) -> Any:
        if len(names) != 1:
            raise UsageError("%nbdebug report takes one path, for example: %nbdebug report report.html")
        if self.newest is None:
            raise UsageError("%nbdebug report: there is no report yet; run %nbdebug diagnose MODEL LOADER first")
        return self._newest_report().save(names[0])

    def _newest_report(self) -> Any:
        """Return the report of what was made last: its own, that of a wizard, or what the checks say of a watched
        run.
        """
        report = getattr(self.newest, "report", self.newest)
        return report() if callable(report) else report

    def _values(
        self,
        command: str,
        names: list[str],
        usage: str = "MODEL LOADER [LOSS_FN] [OPTIMIZER]",
        least: int = 2,
        most: int = 4,
    ) -> list[Any]:
        if not least <= len(names) <= most:
            raise UsageError(f"%nbdebug {command} takes {least} to {most} names: {usage}")
        return self._known(f"%nbdebug {command}", names)

    def _known(self, magic: str, names: list[str]) -> list[Any]:
        return [self._value(magic, name) for name in names]

    def _value(self, magic: str, name: str) -> Any:
        """Look up a name, or what a dotted name leads to; expressions are not evaluated."""
        if not NAME.fullmatch(name):
            does = "takes names, as in model or trainer.model"
            raise UsageError(f"{magic} {does}; {name!r} is none: give it a name in a cell first")
        first, *rest = name.split(".")
        known = self.shell.user_ns if self.shell is not None else {}
        if first not in known:
            raise UsageError(f"{magic}: there is no variable {first!r} in this notebook; run its cell first")
        value = known[first]
        for part in rest:
            if not hasattr(value, part):
                raise UsageError(f"{magic}: {name} does not exist: a {type(value).__name__} has no {part!r}")
            value = getattr(value, part)
        return value


def _diagnose_words(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Take the names and the options of a diagnosis apart; `--quick` is another way to write `--effort quick`."""
    names: list[str] = []
    options: dict[str, Any] = {}
    rest = iter(word for given in words for word in (given.split("=", 1) if given.startswith("--") else [given]))
    for word in rest:
        if word == "--quick":
            options["effort"] = "quick"
        elif word == "--effort":
            options["effort"] = next(rest, "")
        elif word == "--time-limit":
            given = next(rest, "")
            try:
                options["time_limit"] = float(given)
            except ValueError:
                raise UsageError(f"%nbdebug --time-limit takes seconds, and {given!r} is no number") from None
        else:
            names.append(word)
    return names, options


def _watch_line(line: str) -> tuple[list[str], dict[str, Any]]:
    """Take the line of `%%watch` apart: names, with or without commas, and options with a number each."""
    names: list[str] = []
    options: dict[str, Any] = {}
    words = iter(line.replace(",", " ").replace("=", " ").split())
    for word in words:
        if not word.startswith("-"):
            names.append(word)
            continue
        given = next(words, "")
        try:
            options[word.removeprefix("--")] = OPTIONS[word](given)
        except KeyError:
            raise UsageError(f"%%watch has no option {word}; it takes --every N and --budget X") from None
        except ValueError:
            raise UsageError(f"%%watch {word} takes a number, and {given!r} is none") from None
    return names, options


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; doing it twice changes nothing."""
    if not isinstance(shell.magics_manager.registry.get("NbdebugMagics"), NbdebugMagics):
        shell.register_magics(NbdebugMagics)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away again."""
    shell.magics_manager.magics["line"].pop("nbdebug", None)
    shell.magics_manager.magics["cell"].pop("watch", None)
    shell.magics_manager.registry.pop("NbdebugMagics", None)
