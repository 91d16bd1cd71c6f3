// What every view has: its root, its listeners, the keys that the notebook must not take, the static picture that it
// takes the place of, and the way in which it asks the kernel for something.

import type { AnyModel } from "@anywidget/types";
import { h, write } from "./dom";

export interface Traits {
  data: unknown;
  detail: unknown;
  status: string;
  request: Record<string, unknown>;
  key: string;
  selected: string;
  marks: unknown;
}

export interface Frame {
  root: HTMLElement;
  status: HTMLElement;
  ask(action: string, more?: Record<string, unknown>): void;
  close(): void;
}

type Listener = () => void;

/** Puts a view into its host; `name` is that of its style sheet, `on` names what is called when a trait changes. */
export function frame(
  model: AnyModel<Traits>,
  host: HTMLElement,
  name: string,
  label: string,
  on: Partial<Record<keyof Traits, Listener>>,
): Frame {
  const status = h("span", { class: "nbdebug-status", role: "status", "aria-live": "polite" });
  const root = h("section", { class: `nbdebug-view nbdebug-${name}`, "aria-label": label });
  host.append(root);
  const told = (): void => write(status, model.get("status") ?? "");
  const listeners: [string, Listener][] = [
    ["change:status", told],
    ...Object.entries(on).map(([trait, act]): [string, Listener] => [`change:${trait}`, act]),
  ];
  for (const [event, listener] of listeners) model.on(event as "change:data", listener);
  const uncover = cover(model.get("key"));
  const release = claimKeys(root);
  let count = Date.now();
  told();
  return {
    root,
    status,
    ask(action, more = {}) {
      count += 1;
      model.set("request", { ...more, action, count });
      model.save_changes();
    },
    close() {
      for (const [event, listener] of listeners) model.off(event as "change:data", listener);
      uncover();
      release();
      root.remove();
    },
  };
}

/** Hides the static picture of the same view for as long as the live one is there. */
export function cover(key: unknown): Listener {
  if (typeof key !== "string" || !/^[0-9a-f]+$/.test(key)) return () => {};
  const name = `.nbdebug-static-${key}`;
  const style = h("style", {}, `${name}, .jp-OutputArea-child:has(> * ${name}) { display: none; }`);
  document.head.append(style);
  return () => style.remove();
}

/** Jupyter takes arrow keys and Enter in the capture phase of the document, so this has to come before it. */
function claimKeys(root: HTMLElement): Listener {
  const press = (event: KeyboardEvent): void => {
    if (!root.contains(event.target as Node) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!/^(Arrow.*|Home|End|Enter| |Escape)$/.test(event.key)) return;
    event.stopPropagation();
    root.dispatchEvent(new CustomEvent("nbdebug-key", { detail: event }));
  };
  window.addEventListener("keydown", press, true);
  return () => window.removeEventListener("keydown", press, true);
}

/** Calls `act` for keys pressed within the view, before the notebook sees them. */
export function onKey(root: HTMLElement, act: (event: KeyboardEvent) => void): void {
  root.addEventListener("nbdebug-key", (event) => act((event as CustomEvent<KeyboardEvent>).detail));
}

/** Moves focus among buttons with the arrow keys: one of them is in the tab order, the rest are a press away. */
export function roving(root: HTMLElement, selector: string): void {
  const all = (): HTMLElement[] => [...root.querySelectorAll<HTMLElement>(selector)];
  root.addEventListener("focusin", (event) => {
    const target = (event.target as HTMLElement).closest?.(selector);
    if (target) for (const each of all()) each.tabIndex = each === target ? 0 : -1;
  });
  onKey(root, (event) => {
    const items = all();
    const at = items.indexOf((event.target as HTMLElement).closest?.(selector) as HTMLElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (at < 0 || !(step || event.key === "Home" || event.key === "End")) return;
    event.preventDefault();
    const to = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : at + (step ?? 0);
    items[to]?.focus();
  });
}

/** Leaves exactly one of some buttons in the tab order. */
export function oneTabStop(root: HTMLElement, selector: string, chosen: number): void {
  const items = [...root.querySelectorAll<HTMLElement>(selector)];
  items.forEach((item, place) => {
    item.tabIndex = place === (chosen >= 0 && chosen < items.length ? chosen : 0) ? 0 : -1;
  });
}

export function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {};
}

export function asList<T>(value: unknown): T[] {
  return Array.isArray(value) ? (value as T[]) : [];
}
