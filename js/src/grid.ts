// A table of things to choose from: layers or parameters, one a row, with small drawings in the cells. The first cell
// of a row is a button, so that keyboard and screen reader reach it; a click on a column's name sorts.

import { h } from "./dom";
import { oneTabStop, onKey, roving } from "./frame";

export interface Column<R> {
  name: string;
  title?: string;
  wide?: boolean; // takes the room that is left
  head?: () => Node; // under the column's name
  key?: (row: R) => number | string | null;
  cell: (row: R) => Node | string;
}

export interface Sorting {
  column: number;
  down: boolean;
}

export class Grid<R> {
  readonly node = h("div", { class: "nbd-scroll nbd-grid", role: "region" });
  private rows: R[] = [];
  private chosen = -1;
  private sorting: Sorting | null = null;

  constructor(
    label: string,
    private readonly columns: Column<R>[],
    private readonly spoken: (row: R) => string,
    private readonly onChoose: (place: number) => void,
    private readonly mark: (row: R) => string = () => "",
  ) {
    this.node.setAttribute("aria-label", label);
  }

  /** Lets arrows move among the rows of a view, and Escape close the one that is open. */
  listen(root: HTMLElement): void {
    roving(root, "[data-place]");
    onKey(root, (event) => {
      if (event.key === "Escape") this.choose(-1);
    });
  }

  show(rows: R[]): void {
    this.rows = rows;
    this.draw();
  }

  choose(place: number): void {
    this.chosen = place;
    for (const line of this.node.querySelectorAll<HTMLElement>("tbody tr")) {
      line.setAttribute("aria-selected", String(Number(line.dataset.row) === place));
    }
    this.onChoose(place);
  }

  private order(): number[] {
    const places = this.rows.map((_, place) => place);
    const key = this.sorting ? this.columns[this.sorting.column]?.key : undefined;
    if (key === undefined) return places;
    const sign = this.sorting?.down ? -1 : 1;
    return places.sort((a, b) => {
      const [x, y] = [key(this.rows[a] as R), key(this.rows[b] as R)];
      if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
      return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
    });
  }

  private draw(): void {
    const focused = this.node.contains(document.activeElement);
    const heads = this.columns.map((column, place) => this.head(column, place));
    const lines = this.order().map((place) => this.line(place));
    this.node.replaceChildren(
      h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...lines)),
    );
    oneTabStop(this.node, "[data-place]", this.order().indexOf(this.chosen));
    if (focused) this.node.querySelectorAll<HTMLElement>("th button")[this.sorting?.column ?? 0]?.focus();
  }

  private head(column: Column<R>, place: number): HTMLElement {
    const active = this.sorting?.column === place ? this.sorting : null;
    const order = active ? (active.down ? "descending" : "ascending") : "none";
    const text = `${column.name}${active ? (active.down ? " ↓" : " ↑") : ""}`;
    const props = { scope: "col", class: column.wide ? "nbd-wide" : "", title: column.title };
    if (column.key === undefined) return h("th", props, text, column.head?.());
    const sort = (): void => {
      this.sorting = active && !active.down ? null : { column: place, down: !active };
      this.draw();
    };
    return h(
      "th",
      { ...props, "aria-sort": order },
      h("button", { type: "button", on: { click: sort } }, text),
    );
  }

  private line(place: number): HTMLElement {
    const row = this.rows[place] as R;
    const [first, ...rest] = this.columns.map((column) => column.cell(row));
    const act = (): void => this.choose(this.chosen === place ? -1 : place);
    const button = h(
      "button",
      { type: "button", "data-place": place, "aria-label": this.spoken(row), on: { click: act } },
      first,
    );
    const cells = rest.map((content, i) =>
      h("td", { class: this.columns[i + 1]?.wide ? "nbd-wide" : "" }, content),
    );
    return h(
      "tr",
      {
        "data-row": place,
        "data-mark": this.mark(row) || null,
        "aria-selected": String(place === this.chosen),
      },
      h("td", {}, button),
      ...cells,
    );
  }
}

/** A horizontal bar on a common scale, with its number behind it. */
export function bar(share: number, text: string, kind = ""): HTMLElement {
  const fill = h("i", {});
  fill.style.width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  return h("span", { class: `nbd-meter ${kind}` }, h("span", {}, fill), h("small", {}, text));
}
