// What the curve view takes for the model of a widget: the newest message of the kernel.

type Listener = () => void;

export class LiveModel {
  private data: unknown = {};
  private readonly listeners = new Map<string, Set<Listener>>();

  get(name: string): unknown {
    return name === "data" ? this.data : undefined;
  }

  set(): void {}

  save_changes(): void {}

  on(event: string, listener: Listener): void {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(listener));
  }

  off(event: string, listener: Listener): void {
    this.listeners.get(event)?.delete(listener);
  }

  receive(data: unknown): void {
    this.data = data;
    for (const listener of this.listeners.get("change:data") ?? []) listener();
  }
}
