"""`%load_ext nbdebug`: the wizard, a diagnosis, an explanation and a report as magics."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

__all__ = ["NbdebugMagics", "load_ipython_extension", "unload_ipython_extension"]

USAGE = """\
%nbdebug wizard MODEL LOADER [LOSS_FN] [OPTIMIZER]    open the guided troubleshooting cell
%nbdebug diagnose MODEL LOADER [LOSS_FN] [OPTIMIZER]  run every check and show the report
                                                      (--quick: without what trains or takes long)
%nbdebug batch LOADER [MODEL] [LOSS_FN]               show what the network receives
%nbdebug tree                                         draw the decision tree, and where the newest report stands
%nbdebug explain ID                                   say what a check is about
%nbdebug explain-error                                say what the last error means and what would fit
%nbdebug report PATH                                  save the newest report as .html, .ipynb or .json
%%watch MODEL [OPTIMIZER]                             record the training in the cell; it is left in `live`
"""


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
        """Run the cell with `%%watch MODEL [OPTIMIZER]`: its training is recorded, and left in the variable `live`."""
        import nbdebug

        if self.shell is None or not 1 <= len(line.split()) <= 2:
            raise UsageError("%%watch takes one or two names: MODEL [OPTIMIZER], and the training in the cell below it")
        live = nbdebug.watch(*self._known("%%watch", line.split()))
        self.shell.user_ns["live"] = self.newest = live
        code = self.shell.transform_cell(cell)
        with live:
            exec(compile(code, self.shell.compile.cache(code), "exec"), self.shell.user_ns)
        return live

    def _wizard(self, names: list[str]) -> Any:
        import nbdebug

        self.newest = nbdebug.wizard(*self._values("wizard", names))
        return self.newest

    def _diagnose(self, names: list[str]) -> Any:
        import nbdebug

        given = [name for name in names if name != "--quick"]
        self.newest = nbdebug.diagnose(*self._values("diagnose", given), quick="--quick" in names)
        return self.newest

    def _batch(self, names: list[str]) -> Any:
        import nbdebug

        return nbdebug.show_batch(*self._values("batch", names, "LOADER [MODEL] [LOSS_FN]", 1, 3))

    def _tree(self, names: list[str]) -> Any:
        import nbdebug

        if names:
            raise UsageError("%nbdebug tree takes nothing; nbdebug.tree(report) draws another report")
        return nbdebug.tree(getattr(self.newest, "report", self.newest))

    def _explain(self, names: list[str]) -> Any:
        import nbdebug

        if len(names) != 1:
            raise UsageError("%nbdebug explain takes the id of one check, for example: %nbdebug explain dead-units")
        return nbdebug.explain(names[0])

    def _explain_error(self, names: list[str]) -> Any:
        import nbdebug

        if names:
            raise UsageError("%nbdebug explain-error takes nothing: it explains the last error")
        return nbdebug.explain_error()

    def _report(self, names: list[str]) -> Any:
        if len(names) != 1:
            raise UsageError("%nbdebug report takes one path, for example: %nbdebug report report.html")
        if self.newest is None:
            raise UsageError(
                "%nbdebug report: there is nothing to report yet; run %nbdebug diagnose MODEL LOADER first"
            )
        report = getattr(self.newest, "report", self.newest)
        return (report() if callable(report) else report).save(names[0])

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
        known = self.shell.user_ns if self.shell is not None else {}
        for name in names:
            if name not in known:
                raise UsageError(f"{magic}: there is no variable {name!r} in this notebook; run its cell first")
        return [known[name] for name in names]


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; doing it twice changes nothing."""
    if not isinstance(shell.magics_manager.registry.get("NbdebugMagics"), NbdebugMagics):
        shell.register_magics(NbdebugMagics)


def unload_ipython_extension(shell: Any) -> None:
    """Take the magics away again."""
    shell.magics_manager.magics["line"].pop("nbdebug", None)
    shell.magics_manager.magics["cell"].pop("watch", None)
    shell.magics_manager.registry.pop("NbdebugMagics", None)
