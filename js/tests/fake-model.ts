import type { AnyModel, RenderProps } from "@anywidget/types";
import { vi } from "vitest";

type Traits = Record<string, unknown>;

/** A stand-in for the model that anywidget hands to a view; `receive` plays a change made by the kernel. */
export class FakeModel {
  readonly saved = vi.fn();
  private readonly listeners = new Map<string, Set<() => void>>();

  constructor(private readonly traits: Traits) {}

  get = (name: string): unknown => this.traits[name];

  set = (name: string, value: unknown): void => {
    this.receive(name, value);
  };

  on = (event: string, listener: () => void): void => {
    this.listeners.set(event, (this.listeners.get(event) ?? new Set()).add(listener));
  };

  off = (event: string, listener: () => void): void => {
    this.listeners.get(event)?.delete(listener);
  };

  save_changes = (): void => {
    this.saved({ ...this.traits });
  };

  receive(name: string, value: unknown): void {
    this.traits[name] = value;
    for (const listener of this.listeners.get(`change:${name}`) ?? []) listener();
  }

  get listenerCount(): number {
    return [...this.listeners.values()].reduce((sum, some) => sum + some.size, 0);
  }

  /** What a view's `render` receives, drawing into `el`. */
  // biome-ignore lint/suspicious/noExplicitAny: every view narrows the traits to its own.
  props(el: HTMLElement): RenderProps<any> {
    const model = this as unknown as AnyModel;
    return { model, el, signal: new AbortController().signal } as RenderProps;
  }
}
