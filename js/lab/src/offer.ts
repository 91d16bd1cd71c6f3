// When a cell fails with an error of torch: an offer under the traceback to explain it.

import type { Cell, CodeCell } from "@jupyterlab/cells";
import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import type { IDisposable } from "@lumino/disposable";
import { Widget } from "@lumino/widgets";
import { h, write } from "../../src/dom";
import { asObject } from "../../src/frame";
import { ask } from "./kernel";

interface Executed {
  notebook: NotebookPanel["content"];
  cell: Cell;
  success: boolean;
}

export class Offers implements IDisposable {
  isDisposed = false;
  private readonly shown = new Map<Widget, Kernel.IKernelConnection>();

  constructor(
    private readonly notebooks: INotebookTracker,
    private readonly isWanted: () => boolean,
  ) {
    NotebookActions.executed.connect(this.executed, this);
  }

  dispose(): void {
    this.isDisposed = true;
    NotebookActions.executed.disconnect(this.executed, this);
    for (const offer of [...this.shown.keys()]) offer.dispose();
  }

  private executed(_: unknown, { notebook, cell, success }: Executed): void {
    if (success || !hasFailed(cell)) return;
    const panel = this.notebooks.find((candidate) => candidate.content === notebook);
    const kernel = panel?.sessionContext.session?.kernel;
    if (!kernel) return;
    this.withdraw(kernel);
    if (this.isWanted()) this.offer(kernel, cell as CodeCell).catch(() => {}); // without nbdebug there is no offer
  }

  /** Takes back what was offered for earlier errors: a kernel knows its last one only. */
  private withdraw(kernel: Kernel.IKernelConnection): void {
    for (const [offer, of] of [...this.shown]) if (of === kernel) offer.dispose();
  }

  private async offer(kernel: Kernel.IKernelConnection, cell: CodeCell): Promise<void> {
    if ((await kernel.info).language_info.name !== "python") return;
    const { kind } = await ask(kernel, "mishap");
    if (typeof kind !== "string" || kind === "" || cell.isDisposed || this.isDisposed) return;
    const offer = new Offer(() => explain(kernel, cell));
    this.shown.set(offer, kernel);
    offer.disposed.connect(() => this.shown.delete(offer));
    cell.outputArea.layout.insertWidget(cell.outputArea.widgets.length, offer);
  }
}

/** Whether a cell shows an error; one that was not run because of another cell's error shows none. */
export function hasFailed(cell: Cell): boolean {
  if (cell.model.type !== "code") return false;
  return (cell as CodeCell).model.outputs.toJSON().some((output) => output.output_type === "error");
}

/** Explains the last error in an output of its cell, which is saved with the notebook as every other. */
export async function explain(kernel: Kernel.IKernelConnection, cell: CodeCell): Promise<void> {
  const { data } = await ask(kernel, "explain");
  const bundle = Object.fromEntries(
    Object.entries(asObject(data)).map(([type, text]) => [type, String(text)]),
  );
  cell.outputArea.model.add({ output_type: "display_data", data: bundle, metadata: {} });
}

/** A line with one button. The output area disposes of it with everything else when the cell runs again. */
class Offer extends Widget {
  constructor(act: () => Promise<void>) {
    super();
    this.addClass("nbdebug-offer");
    const said = h("span", { role: "status" });
    const button = h("button", { type: "button", class: "jp-mod-styled" }, "Explain with nbdebug");
    button.addEventListener("click", () => {
      button.disabled = true;
      act()
        .then(() => this.dispose())
        .catch((error: Error) => write(said, error.message));
    });
    this.node.append(button, said);
  }
}
