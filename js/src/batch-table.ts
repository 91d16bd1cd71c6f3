// Rows of numbers as a table: a tiny histogram over each column, a click on its name sorts.

import { h, percent, short } from "./dom";
import { asList } from "./frame";
import { byColumn, type Part, type Row, type Sample } from "./samples";
import { histogram } from "./sparks";

export interface Sorting {
  column: number;
  down: boolean;
}

export interface TableProps {
  part: Part;
  samples: Sample[];
  places: number[];
  sorting: Sorting | null;
  chosen: number;
  onSort(sorting: Sorting): void;
  onChoose(place: number): void;
}

export function batchTable(props: TableProps): HTMLElement {
  const { part, samples, sorting } = props;
  const rows = part.items as Row[];
  const places = sorting ? byColumn(rows, props.places, sorting.column, sorting.down) : props.places;
  const judged = samples.some((sample) => sample.predicted !== "" || sample.loss !== null);
  const heads = asList<string>(part.columns).map((name, column) => head(props, name, column));
  const fixed = ["sample", "target", ...(judged ? ["prediction", "loss"] : [])];
  return h(
    "div",
    { class: "nbd-scroll nbd-table", tabindex: 0, role: "region", "aria-label": `values of ${part.name}` },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...fixed.map((name) => h("th", { scope: "col" }, name)), ...heads)),
      h("tbody", {}, ...places.map((place) => line(props, place, rows[place] ?? [], judged))),
    ),
  );
}

function head(props: TableProps, name: string, column: number): HTMLElement {
  const { part, sorting } = props;
  const active = sorting?.column === column ? sorting : null;
  const shape = part.histograms?.[column];
  const label = shape ? `${name}: from ${short(shape.low)} to ${short(shape.high)}` : name;
  const button = h(
    "button",
    {
      type: "button",
      title: label,
      on: { click: () => props.onSort({ column, down: active ? !active.down : true }) },
    },
    `${name}${active ? (active.down ? " ↓" : " ↑") : ""}`,
  );
  const order = active ? (active.down ? "descending" : "ascending") : "none";
  const drawn = shape && shape.counts.length > 0 ? histogram(shape.counts, 54, 16, label) : null;
  return h("th", { scope: "col", "aria-sort": order }, drawn, button);
}

function line(props: TableProps, place: number, row: Row, judged: boolean): HTMLElement {
  const sample = props.samples[place] as Sample;
  const choose = h(
    "button",
    { type: "button", "data-place": place, on: { click: () => props.onChoose(place) } },
    `#${sample.index ?? place}`,
  );
  const verdict = sample.right === null ? "" : sample.right ? "nbd-good" : "nbd-bad";
  const mark = sample.right === null ? "" : sample.right ? " ✓" : " ✗";
  const said = `${sample.predicted} ${percent(sample.confidence)}${mark}`;
  const judgment = judged
    ? [h("td", { class: verdict }, said), h("td", {}, sample.loss === null ? "" : short(sample.loss))]
    : [];
  const cells = row.map((value) => h("td", { class: value === null ? "nbd-bad" : "" }, short(value)));
  return h(
    "tr",
    { "aria-selected": String(place === props.chosen) },
    h("td", {}, choose),
    h("td", {}, sample.target),
    ...judgment,
    ...cells,
  );
}
