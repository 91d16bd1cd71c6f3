// Puts the code of a fix into a new cell under the one whose output shows it; the page says that this can be done.

import { type INotebookTracker, NotebookActions } from "@jupyterlab/notebook";
import type { IDisposable } from "@lumino/disposable";

const INSERT = "nbdebug:insert-cell"; // as in js/src/helper.ts

export class Insertions implements IDisposable {
  isDisposed = false;

  constructor(private readonly notebooks: INotebookTracker) {
    document.documentElement.dataset.nbdebugInsert = "true";
    document.addEventListener(INSERT, this.insert);
  }

  dispose(): void {
    this.isDisposed = true;
    delete document.documentElement.dataset.nbdebugInsert;
    document.removeEventListener(INSERT, this.insert);
  }

  private readonly insert = (event: Event): void => {
    const { code, from } = (event as CustomEvent<{ code?: unknown; from?: unknown }>).detail ?? {};
    if (typeof code !== "string" || !(from instanceof HTMLElement)) return;
    const panel = this.notebooks.find((candidate) => candidate.node.contains(from));
    if (!panel) return;
    const at = panel.content.widgets.findIndex((cell) => cell.node.contains(from));
    if (at >= 0) panel.content.activeCellIndex = at;
    NotebookActions.insertBelow(panel.content);
    panel.content.activeCell?.model.sharedModel.setSource(code);
  };
}
