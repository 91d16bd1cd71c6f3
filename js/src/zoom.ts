// Which stretch of the steps is shown: dragging over the plot, buttons and keys change it.

import { type Range, zoomed } from "./curves";
import { onKey } from "./frame";

export class Zoom {
  private chosen: Range | null = null;

  constructor(
    private readonly bounds: () => Range,
    private readonly changed: () => void,
  ) {}

  get range(): Range {
    return this.chosen ?? this.bounds();
  }

  all(): void {
    this.set(null);
  }

  by(factor: number, at = 0.5): void {
    const bounds = this.bounds();
    const next = zoomed(this.range, factor, at, bounds);
    this.set(next.low <= bounds.low && next.high >= bounds.high ? null : next);
  }

  move(part: number): void {
    if (this.chosen === null) return;
    const bounds = this.bounds();
    const width = this.chosen.high - this.chosen.low;
    const low = Math.max(bounds.low, Math.min(bounds.high - width, this.chosen.low + part * width));
    this.set({ low, high: low + width });
  }

  private set(range: Range | null): void {
    this.chosen = range;
    this.changed();
  }

  /** Dragging over the plot zooms to that stretch, a double click shows all; plus, minus and arrows do the same. */
  listen(plots: HTMLElement, root: HTMLElement, stepAt: (event: PointerEvent) => number): void {
    let from: number | null = null;
    plots.addEventListener("pointerdown", (event) => {
      from = stepAt(event);
    });
    plots.addEventListener("pointerup", (event) => {
      const [a, b] = [from, stepAt(event)];
      from = null;
      if (a !== null && Math.abs(a - b) >= 2) this.set({ low: Math.min(a, b), high: Math.max(a, b) });
    });
    plots.addEventListener("dblclick", () => this.all());
    plots.addEventListener("keydown", (event) => {
      if (event.key === "+" || event.key === "=") this.by(0.5);
      else if (event.key === "-") this.by(2);
      else if (event.key === "0") this.all();
      else return;
      event.stopPropagation();
    });
    onKey(root, (event) => {
      if (event.target !== plots || !/^Arrow(Left|Right)$/.test(event.key)) return;
      event.preventDefault();
      this.move(event.key === "ArrowLeft" ? -0.25 : 0.25);
    });
  }
}
