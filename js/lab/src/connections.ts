// What the kernels tell: one channel for each kernel whose notebook uses nbdebug.

import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import { UUID } from "@lumino/coreutils";
import type { IDisposable } from "@lumino/disposable";
import { Signal } from "@lumino/signaling";
import { asObject } from "../../src/frame";
import { type Answer, ask } from "./kernel";

export interface Told {
  panel: NotebookPanel;
  message: Answer;
}

const USES = /\bnbdebug\b|^%%watch\b/m;
const GONE: readonly string[] = ["restarting", "autorestarting", "terminating", "dead"];

/** Connects to a kernel before the first cell runs in a notebook that mentions nbdebug; others are left alone. */
export class Connections implements IDisposable {
  readonly told = new Signal<this, Told>(this);
  isDisposed = false;
  private readonly channels = new Map<string, Channel>();

  constructor(private readonly notebooks: INotebookTracker) {
    NotebookActions.executionScheduled.connect(this.scheduled, this);
  }

  dispose(): void {
    this.isDisposed = true;
    NotebookActions.executionScheduled.disconnect(this.scheduled, this);
    for (const channel of this.channels.values()) channel.dispose();
    this.channels.clear();
    Signal.clearData(this);
  }

  /** Lets the kernel of a notebook tell what happens; harmless when it does so already. */
  connect(panel: NotebookPanel): void {
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel) return;
    const known = this.channels.get(kernel.clientId);
    if (known !== undefined && !known.isDisposed) return;
    const channel = new Channel(kernel, (message) => this.told.emit({ panel, message }));
    this.channels.set(kernel.clientId, channel);
  }

  /** Hears that a cell will run; what is sent to the kernel now comes before it. */
  private scheduled(_: unknown, { notebook }: { notebook: NotebookPanel["content"] }): void {
    const panel = this.notebooks.find((candidate) => candidate.content === notebook);
    if (panel === undefined) return;
    if (notebook.widgets.some((cell) => USES.test(cell.model.sharedModel.getSource()))) this.connect(panel);
  }
}

class Channel implements IDisposable {
  private readonly comm: Kernel.IComm;

  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly tell: (message: Answer) => void,
  ) {
    // The kernel's end is made by the request below, so that it is there before the next cell runs.
    this.comm = kernel.createComm("nbdebug", UUID.uuid4());
    this.comm.onMsg = ({ content }) => tell(asObject(content.data));
    kernel.statusChanged.connect(this.changed, this);
    kernel.disposed.connect(this.dispose, this);
    ask(kernel, "connect", { channel: this.comm.commId }).catch(() => this.dispose());
  }

  get isDisposed(): boolean {
    return this.comm.isDisposed;
  }

  dispose(): void {
    this.kernel.statusChanged.disconnect(this.changed, this);
    this.kernel.disposed.disconnect(this.dispose, this);
    if (this.comm.isDisposed) return;
    const { commId } = this.comm;
    this.comm.dispose();
    if (!this.kernel.isDisposed) ask(this.kernel, "disconnect", { channel: commId }).catch(() => {});
  }

  private changed(kernel: Kernel.IKernelConnection, status: string): void {
    if (!GONE.includes(status)) return;
    this.tell({ watch: { running: false } });
    kernel.statusChanged.disconnect(this.changed, this);
    kernel.disposed.disconnect(this.dispose, this);
    if (!this.comm.isDisposed) this.comm.dispose();
  }
}
