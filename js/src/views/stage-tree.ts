// The wizard's tree of stages and steps. Titles come from the user's session and are untrusted: they are
// only ever written as text. Rows are updated in place, so that focus and scroll position survive.

import type { AnyModel, RenderProps } from "@anywidget/types";
import { Clicks } from "../clicks";
import { cover } from "../frame";
import { Helper } from "../helper";
import { describe, destination, ICONS, type Row, type Stage, tabStop, toRows } from "../stages";

interface Traits {
  stages: Stage[];
  selected: string;
  key: string;
  heard: number;
  form: string;
}

/** In the map the rows run from left to right. */
const ALONG: Record<string, string> = { ArrowRight: "ArrowDown", ArrowLeft: "ArrowUp" };

interface Line {
  item: HTMLLIElement;
  button: HTMLButtonElement;
  icon: HTMLSpanElement;
  title: HTMLSpanElement;
  state: HTMLSpanElement;
  steps: HTMLUListElement | null;
}

class TreeView {
  private readonly nav = document.createElement("nav");
  private readonly list = document.createElement("ul");
  private readonly lines = new Map<string, Line>();
  private rows: Row[] = [];
  private focused: string | null = null;

  constructor(private readonly model: AnyModel<Traits>) {
    const form = this.model.get("form");
    this.nav.className = `nbdebug-stage-tree${form === "map" || form === "list" ? ` nbdebug-${form}` : ""}`;
    this.nav.setAttribute("aria-label", form === "list" ? "Steps of this stage" : "Stages and steps");
    this.nav.append(this.list);
  }

  mount(host: HTMLElement): () => void {
    host.append(this.nav);
    this.update();
    this.model.on("change:stages", this.update);
    this.model.on("change:selected", this.mark);
    // Jupyter takes arrow keys and Enter in the capture phase of the document, so this has to come before it.
    window.addEventListener("keydown", this.press, true);
    const uncover = cover(this.model.get("key"));
    const clicks = this.model.get("form") === "list" ? null : new Clicks(this.nav);
    const helper = this.model.get("form") === "map" ? new Helper(this.nav) : null;
    if (clicks !== null) this.model.on("change:heard", clicks.heard);
    return () => {
      uncover();
      clicks?.close();
      helper?.close();
      if (clicks !== null) this.model.off("change:heard", clicks.heard);
      this.model.off("change:stages", this.update);
      this.model.off("change:selected", this.mark);
      window.removeEventListener("keydown", this.press, true);
      this.nav.remove();
    };
  }

  private get isMap(): boolean {
    return this.nav.classList.contains("nbdebug-map");
  }

  private readonly update = (): void => {
    const hadFocus = this.nav.contains(document.activeElement);
    this.rows = toRows(this.model.get("stages"));
    this.dropMissing();
    const ends = new Map<HTMLElement, Element | null>();
    for (const row of this.rows) this.place(row, ends);
    this.mark();
    if (hadFocus && !this.nav.contains(document.activeElement)) this.focus(this.stop());
  };

  private dropMissing(): void {
    const wanted = new Set(this.rows.map((row) => row.key));
    for (const [key, line] of this.lines) {
      if (wanted.has(key)) continue;
      line.item.remove();
      this.lines.delete(key);
    }
  }

  /** Puts a row behind the one placed before it in the same list, moving it only if it is elsewhere. */
  private place(row: Row, ends: Map<HTMLElement, Element | null>): void {
    const line = this.lines.get(row.key) ?? this.create(row);
    const home = (row.parent === null ? this.list : this.lines.get(row.parent)?.steps) ?? this.list;
    const end = ends.get(home) ?? null;
    const next = end === null ? home.firstElementChild : end.nextElementSibling;
    if (next !== line.item) home.insertBefore(line.item, next);
    ends.set(home, line.item);
    fill(line, row);
  }

  private create(row: Row): Line {
    const line = newLine(row.parent === null);
    line.button.addEventListener("click", () => this.choose(row.key));
    line.button.addEventListener("focus", () => this.remember(row.key));
    this.lines.set(row.key, line);
    return line;
  }

  /** Shows which row is selected, and leaves exactly one row in the tab order. */
  private readonly mark = (): void => {
    const selected = this.model.get("selected");
    const stop = this.stop();
    for (const row of this.rows) {
      const button = this.lines.get(row.key)?.button;
      if (button === undefined) continue;
      if (row.id !== "" && row.id === selected) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
      button.tabIndex = row.key === stop ? 0 : -1;
    }
  };

  private choose(key: string): void {
    const row = this.rows.find((candidate) => candidate.key === key);
    if (row === undefined) return;
    this.focus(key);
    this.model.set("selected", row.id);
    this.model.save_changes();
    this.mark();
  }

  private readonly press = (event: KeyboardEvent): void => {
    if (!this.nav.contains(event.target as Node)) return;
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const moves = /^(Arrow|Home$|End$)/.test(event.key);
    const key = this.isMap ? (ALONG[event.key] ?? event.key) : event.key;
    if (moves) event.preventDefault();
    if (moves || event.key === "Enter" || event.key === " ") event.stopPropagation();
    if (moves && this.focused !== null) this.focus(destination(this.rows, this.focused, key));
  };

  private remember(key: string): void {
    this.focused = key;
    this.mark();
  }

  private stop(): string | null {
    return tabStop(this.rows, this.focused, this.model.get("selected"));
  }

  private focus(key: string | null): void {
    if (key !== null) this.lines.get(key)?.button.focus();
  }
}

function newLine(isStage: boolean): Line {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  const [icon, title, state] = ["icon", "title", "state"].map((name) => {
    const span = document.createElement("span");
    span.className = `nbdebug-${name}`;
    return span;
  }) as [HTMLSpanElement, HTMLSpanElement, HTMLSpanElement];
  icon.setAttribute("aria-hidden", "true");
  button.append(icon, title, state);
  item.append(button);
  const steps = isStage ? document.createElement("ul") : null;
  if (steps !== null) item.append(steps);
  return { item, button, icon, title, state, steps };
}

function fill(line: Line, row: Row): void {
  line.button.dataset.state = row.state;
  line.button.dataset.id = row.id;
  write(line.icon, ICONS[row.state]);
  write(line.title, row.title);
  write(line.state, describe(row.state, row.count));
  line.button.title = `${row.title}: ${describe(row.state, row.count)}`;
}

function write(node: HTMLElement, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

export default {
  render({ model, el }: RenderProps<Traits>): () => void {
    return new TreeView(model).mount(el);
  },
};
