// One layer is selected in all views of a model at once: each marks the row that belongs to it, and the kernel passes a
// choice on to the others. What was found at a layer is marked in its row as well.

import type { AnyModel } from "@anywidget/types";
import { asObject, type Traits } from "./frame";
import type { Grid } from "./grid";

/** Returns the row for what is selected elsewhere: a layer, one of its parameters, or its activation function. */
export function placeOf(names: string[], selected: string): number {
  const exact = names.indexOf(selected);
  if (exact >= 0 || selected === "") return exact;
  const layer = owner(selected);
  const inside = names.findIndex((name) => name === layer || name.startsWith(`${layer}.`));
  if (inside >= 0) return inside;
  const around = names.filter((name) => layer.startsWith(`${name}.`)).sort((a, b) => b.length - a.length);
  return names.indexOf(around[0] ?? "\n");
}

/** The layer whose output an activation function takes: such a row is called `fc1 → relu`. */
function owner(name: string): string {
  return name.split(" → ")[0] ?? name;
}

export class Selection<R> {
  private names: string[] = [];

  constructor(
    private readonly model: AnyModel<Traits>,
    private readonly grid: Grid<R>,
    private readonly nameOf: (row: R) => string,
  ) {}

  /** The listeners of a frame. */
  readonly on = (redraw: () => void) => ({ selected: this.follow, marks: redraw });

  /** Takes other rows, and marks the one that belongs to what is selected. */
  show(rows: R[]): void {
    this.names = rows.map(this.nameOf);
    this.grid.show(rows);
    this.follow();
  }

  /** A person has chosen a row, or closed it. */
  chosen(place: number, names = this.names): void {
    if (placeOf(names, this.model.get("selected") ?? "") === place) return;
    this.model.set("selected", names[place] ?? "");
    this.model.save_changes();
  }

  /** Returns how grave what was found at a row is. */
  mark(row: R): string {
    const name = this.nameOf(row);
    const found = Object.entries(asObject(this.model.get("marks")))
      .filter(([path]) => path === name || owner(name) === path || name.startsWith(`${path}.`))
      .map(([, severity]) => String(severity));
    return ["bug", "suspect", "note"].find((severity) => found.includes(severity)) ?? "";
  }

  private readonly follow = (): void => {
    this.grid.choose(placeOf(this.names, this.model.get("selected") ?? ""));
  };
}
