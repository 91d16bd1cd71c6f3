// Does in the notebook what a finding offers: puts the code of a fix into a new cell under the one whose output shows it,
// or leads to the line that the finding is about; the page says that this can be done.

import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { IDisposable } from "@lumino/disposable";
import { jump, locate, sources, toFinding } from "./links";

const INSERT = "nbdebug:insert-cell"; // these two as in js/src/helper.ts
const GO_TO = "nbdebug:go-to-line";

export class Insertions implements IDisposable {
  isDisposed = false;

  constructor(private readonly notebooks: INotebookTracker) {
    document.documentElement.dataset.nbdebugInsert = "true";
    document.addEventListener(INSERT, this.insert);
    document.addEventListener(GO_TO, this.goTo);
  }

  dispose(): void {
    this.isDisposed = true;
    delete document.documentElement.dataset.nbdebugInsert;
    document.removeEventListener(INSERT, this.insert);
    document.removeEventListener(GO_TO, this.goTo);
  }

  private readonly insert = (event: Event): void => {
    const { detail, from, panel } = this.asked(event);
    if (typeof detail.code !== "string" || !panel) return;
    const at = panel.content.widgets.findIndex((cell) => cell.node.contains(from));
    if (at >= 0) panel.content.activeCellIndex = at;
    NotebookActions.insertBelow(panel.content);
    panel.content.activeCell?.model.sharedModel.setSource(detail.code);
  };

  private readonly goTo = (event: Event): void => {
    const { detail, panel } = this.asked(event);
    if (typeof detail.text !== "string" || !panel) return;
    const spot = locate(sources(panel), toFinding({ text: detail.text, line: detail.line }));
    if (spot !== null) void jump(panel, spot);
  };

  /** What a button asks for, and the notebook that it stands in. */
  private asked(event: Event): { detail: Record<string, unknown>; from: Node | null; panel?: NotebookPanel } {
    const detail: Record<string, unknown> = (event as CustomEvent).detail ?? {};
    const from = detail.from instanceof HTMLElement ? detail.from : null;
    const panel = from ? this.notebooks.find((candidate) => candidate.node.contains(from)) : undefined;
    return panel ? { detail, from, panel } : { detail, from };
  }
}
