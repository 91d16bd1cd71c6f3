import { beforeEach, describe, expect, it, vi } from "vitest";

/** A signal that can say how many listen. */
class Counted {
  readonly slots: { slot: (...args: never[]) => void; self: unknown }[] = [];
  connect(slot: (...args: never[]) => void, self?: unknown): boolean {
    this.slots.push({ slot, self });
    return true;
  }
  disconnect(slot: (...args: never[]) => void, self?: unknown): boolean {
    const at = this.slots.findIndex((one) => one.slot === slot && one.self === self);
    if (at >= 0) this.slots.splice(at, 1);
    return at >= 0;
  }
  emit(...args: unknown[]): void {
    for (const { slot, self } of [...this.slots]) slot.apply(self, args as never[]);
  }
}

const executionScheduled = new Counted();
vi.mock("@jupyterlab/notebook", () => ({ NotebookActions: { executionScheduled } }));
vi.mock("@lumino/coreutils", () => ({ UUID: { uuid4: () => "an-id" } }));
vi.mock("@lumino/signaling", () => ({
  Signal: class extends Counted {
    static clearData(): void {}
    override emit(args: unknown): void {
      super.emit(this, args);
    }
  },
}));
const { Connections } = await import("../src/connections");

const asked: string[] = [];
const comm = {
  commId: "an-id",
  isDisposed: false,
  onMsg: (_: unknown): void => {},
  dispose: vi.fn(() => {
    comm.isDisposed = true;
  }),
};
let reply: Promise<unknown> = new Promise(() => {});
const kernel = {
  clientId: "k",
  isDisposed: false,
  statusChanged: new Counted(),
  disposed: new Counted(),
  createComm: () => comm,
  requestExecute: ({ user_expressions }: { user_expressions: { nbdebug: string } }) => {
    asked.push(/answer\("(\w+)"/.exec(user_expressions.nbdebug)?.[1] ?? "");
    return { done: reply };
  },
};

const widgetAdded = new Counted();
const iopubMessage = new Counted();

function panelOf(source: string) {
  const content = { widgets: [{ model: { sharedModel: { getSource: () => source } } }] };
  return { content, sessionContext: { session: { kernel }, iopubMessage } };
}

function connections(panel: ReturnType<typeof panelOf>) {
  const tracker = {
    find: (fits: (one: unknown) => boolean) => [panel].find(fits),
    forEach: (act: (one: unknown) => void) => [panel].forEach(act),
    widgetAdded,
  };
  return new Connections(tracker as never);
}

describe("connections", () => {
  beforeEach(() => {
    asked.length = 0;
    comm.isDisposed = false;
    reply = new Promise(() => {});
  });

  it("leave notebooks alone that do not mention nbdebug", () => {
    const panel = panelOf("import torch");
    const made = connections(panel);
    executionScheduled.emit(null, { notebook: panel.content });
    expect(asked).toEqual([]);
    made.dispose();
  });

  it("ask once, before the first cell runs, and pass on what is told", () => {
    const panel = panelOf("%%watch model\n…");
    const made = connections(panel);
    const heard = vi.fn();
    made.told.connect(heard as never);
    executionScheduled.emit(null, { notebook: panel.content });
    executionScheduled.emit(null, { notebook: panel.content });
    expect(asked).toEqual(["connect"]);
    comm.onMsg({ content: { data: { watch: { running: true } } } });
    expect(heard).toHaveBeenCalledWith(expect.anything(), { panel, message: { watch: { running: true } } });
    made.dispose();
  });

  it("say that the training is over when the kernel goes, and connect anew after that", () => {
    const panel = panelOf("import nbdebug");
    const made = connections(panel);
    const heard = vi.fn();
    made.told.connect(heard as never);
    executionScheduled.emit(null, { notebook: panel.content });
    kernel.statusChanged.emit(kernel, "restarting");
    expect(heard).toHaveBeenCalledWith(expect.anything(), { panel, message: { watch: { running: false } } });
    comm.isDisposed = true;
    executionScheduled.emit(null, { notebook: panel.content });
    expect(asked).toEqual(["connect", "connect"]);
    made.dispose();
  });

  it("overhear what is told to another page, until the kernel tells it to this one", async () => {
    const panel = panelOf("import nbdebug");
    const made = connections(panel);
    const heard = vi.fn();
    made.told.connect(heard as never);
    const overhear = (msg_type: string, comm_id: string): void =>
      iopubMessage.emit(panel.sessionContext, {
        header: { msg_type },
        content: { comm_id, data: { watch: { running: true } } },
      });
    overhear("stream", "nbdebug-other");
    overhear("comm_msg", "some-widget");
    expect(heard).not.toHaveBeenCalled();
    expect(asked).toEqual([]);
    overhear("comm_msg", "nbdebug-other");
    expect(heard).toHaveBeenCalledWith(expect.anything(), { panel, message: { watch: { running: true } } });
    expect(asked).toEqual(["connect"]);
    made.dispose();

    const answer = { "application/json": { connected: true } };
    reply = Promise.resolve({ content: { user_expressions: { nbdebug: { data: answer } } } });
    comm.isDisposed = false;
    const connected = connections(panel);
    connected.told.connect(heard as never);
    executionScheduled.emit(null, { notebook: panel.content });
    await vi.waitFor(() => {
      heard.mockClear();
      overhear("comm_msg", "nbdebug-other");
      expect(heard).not.toHaveBeenCalled();
    });
    connected.dispose();
  });

  it("leave no listener behind", () => {
    const panel = panelOf("import nbdebug");
    const made = connections(panel);
    executionScheduled.emit(null, { notebook: panel.content });
    made.dispose();
    const signals = [executionScheduled, widgetAdded, iopubMessage, kernel.statusChanged, kernel.disposed];
    expect(signals.map(({ slots }) => slots.length)).toEqual([0, 0, 0, 0, 0]);
    expect(asked).toEqual(["connect", "disconnect"]);
  });
});
