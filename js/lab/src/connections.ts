// What the kernels tell: one channel for each kernel whose notebook uses nbdebug.

import type { ISessionContext } from "@jupyterlab/apputils";
import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel, KernelMessage } from "@jupyterlab/services";
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
const CHANNEL = "nbdebug-"; // how the name of every channel begins, so that a page knows those of other pages
const GONE: readonly string[] = ["restarting", "autorestarting", "terminating", "dead"];

/** Connects to a kernel before the first cell runs in a notebook that mentions nbdebug; others are left alone. */
export class Connections implements IDisposable {
  readonly told = new Signal<this, Told>(this);
  isDisposed = false;
  private readonly channels = new Map<string, Channel>();

  constructor(private readonly notebooks: INotebookTracker) {
    NotebookActions.executionScheduled.connect(this.scheduled, this);
    notebooks.widgetAdded.connect(this.added, this);
    notebooks.forEach((panel) => void this.added(notebooks, panel));
  }

  dispose(): void {
    this.isDisposed = true;
    NotebookActions.executionScheduled.disconnect(this.scheduled, this);
    this.notebooks.widgetAdded.disconnect(this.added, this);
    this.notebooks.forEach(
      (panel) => void panel.sessionContext.iopubMessage.disconnect(this.overheard, this),
    );
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

  private added(_: unknown, panel: NotebookPanel): void {
    panel.sessionContext.iopubMessage.connect(this.overheard, this);
  }

  /** Hears a training that began before this page was opened: its kernel answers no question before it has ended. */
  private overheard(context: ISessionContext, { header, content }: KernelMessage.IMessage): void {
    if (header.msg_type !== "comm_msg") return;
    const { comm_id: id, data } = content as KernelMessage.ICommMsgMsg["content"];
    const panel = this.notebooks.find((candidate) => candidate.sessionContext === context);
    if (!id.startsWith(CHANNEL) || panel === undefined) return;
    const own = this.channels.get(context.session?.kernel?.clientId ?? "");
    if (own?.isOpen || own?.id === id) return;
    this.connect(panel);
    this.told.emit({ panel, message: asObject(data) });
  }

  /** Hears that a cell will run; what is sent to the kernel now comes before it. */
  private scheduled(_: unknown, { notebook }: { notebook: NotebookPanel["content"] }): void {
    const panel = this.notebooks.find((candidate) => candidate.content === notebook);
    if (panel === undefined) return;
    if (notebook.widgets.some((cell) => USES.test(cell.model.sharedModel.getSource()))) this.connect(panel);
  }
}

class Channel implements IDisposable {
  /** Whether the kernel has said that it sends to this channel. */
  isOpen = false;
  private readonly comm: Kernel.IComm;

  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly tell: (message: Answer) => void,
  ) {
    // The kernel's end is made by the request below, so that it is there before the next cell runs.
    this.comm = kernel.createComm("nbdebug", `${CHANNEL}${UUID.uuid4()}`);
    this.comm.onMsg = ({ content }) => tell(asObject(content.data));
    kernel.statusChanged.connect(this.changed, this);
    kernel.disposed.connect(this.dispose, this);
    ask(kernel, "connect", { channel: this.id })
      .then(() => {
        this.isOpen = true;
      })
      .catch(() => this.dispose());
  }

  get id(): string {
    return this.comm.commId;
  }

  get isDisposed(): boolean {
    return this.comm.isDisposed;
  }

  dispose(): void {
    this.kernel.statusChanged.disconnect(this.changed, this);
    this.kernel.disposed.disconnect(this.dispose, this);
    if (this.comm.isDisposed) return;
    this.isOpen = false;
    this.comm.dispose();
    if (!this.kernel.isDisposed) ask(this.kernel, "disconnect", { channel: this.id }).catch(() => {});
  }

  private changed(kernel: Kernel.IKernelConnection, status: string): void {
    if (!GONE.includes(status)) return;
    this.isOpen = false;
    this.tell({ watch: { running: false } });
    kernel.statusChanged.disconnect(this.changed, this);
    kernel.disposed.disconnect(this.dispose, this);
    if (!this.comm.isDisposed) this.comm.dispose();
  }
}
