// The way through a model: the innermost modules in the order of their calls, inside those that hold them, with an
// arrow where one takes from the one above it and an arc where it takes from one farther up.

import { h, s } from "./dom";
import { type Layer, SIGNS, spoken, time } from "./layers";
import { num } from "./numbers";

const [NODE, HEAD, GAP, LANE] = [30, 22, 14, 9]; // heights of rows, the room between them, and the width of an arc's lane

export interface Arc {
  from: number;
  to: number;
  lane: number;
}

/** The modules that were called, in order. */
export function inOrder(layers: readonly Layer[]): Layer[] {
  return layers.filter((l) => (l.order ?? -1) >= 0).sort((a, b) => (a.order ?? 0) - (b.order ?? 0));
}

/** Arcs for what is not taken from the row before, in lanes so that none lies over another. */
export function arcsOf(rows: readonly Layer[]): Arc[] {
  const place = new Map(rows.map((layer, i) => [layer.path, i]));
  const pairs = rows.flatMap((layer, to) =>
    (layer.sources ?? []).flatMap((source) => {
      const from = place.get(source);
      return from !== undefined && from < to - 1 ? [{ from, to }] : [];
    }),
  );
  const free: number[] = []; // the row at which each lane is free again
  return pairs
    .sort((a, b) => a.from - b.from || a.to - b.to)
    .map(({ from, to }) => {
      const found = free.findIndex((end) => end <= from);
      const lane = found < 0 ? free.length : found;
      free[lane] = to;
      return { from, to, lane };
    });
}

export interface Chart {
  every: readonly Layer[];
  chosen(): string;
  choose(path: string): void;
}

export function flowChart({ every, chosen, choose }: Chart): HTMLElement {
  const rows = inOrder(every);
  if (rows.length === 0) return h("p", { class: "nbd-quiet" }, "No module was called in this pass.");
  const arcs = arcsOf(rows);
  const room = arcs.length > 0 ? 14 + LANE * (1 + Math.max(...arcs.map(({ lane }) => lane))) : 0;
  const most = Math.max(1e-12, ...rows.map((layer) => num(layer.ms) ?? 0));
  const parts: Element[] = [];
  const middles: number[] = [];
  let [y, before] = [0, [] as string[]];
  for (const [i, layer] of rows.entries()) {
    let joined = i > 0 && (layer.sources ?? []).includes(rows[i - 1]?.path ?? "");
    const holders = holdersOf(layer.path);
    const same = holders.findIndex((holder, k) => holder !== before[k]);
    for (const holder of same < 0 ? [] : holders.slice(same)) {
      parts.push(
        at(
          y,
          head(
            every.find((each) => each.path === holder),
            holder,
            joined,
          ),
        ),
      );
      joined = false; // the arrow stands above the first of the names
      y += HEAD;
    }
    before = holders;
    parts.push(at(y, node(layer, every.indexOf(layer), { joined, most, room, chosen, choose })));
    middles.push(y + NODE / 2);
    y += NODE + GAP;
  }
  const picture = s(
    "svg",
    { width: room, height: y, class: "nbd-arcs", "aria-hidden": "true" },
    ...arcs.map((arc) => drawn(arc, middles)),
  );
  const chart = h("div", { class: "nbd-flow" }, picture, ...parts);
  chart.style.height = `${y}px`;
  return h(
    "div",
    { class: "nbd-scroll nbd-flowing", role: "region", "aria-label": "Data flow through the model" },
    chart,
  );
}

function holdersOf(path: string): string[] {
  const steps = path.split(".");
  return steps.slice(0, -1).map((_, i) => steps.slice(0, i + 1).join("."));
}

function at(y: number, node: HTMLElement): HTMLElement {
  node.style.top = `${y}px`;
  return node;
}

function indent(path: string): string {
  return `${14 * holdersOf(path).length}px`;
}

function head(layer: Layer | undefined, path: string, joined: boolean): HTMLElement {
  const made = h(
    "div",
    { class: "nbd-holder", "data-joined": joined },
    path,
    h("small", {}, ` ${layer?.module ?? ""}`),
  );
  made.style.left = indent(path);
  return made;
}

interface Look {
  joined: boolean;
  most: number;
  room: number;
  chosen(): string;
  choose(path: string): void;
}

function node(layer: Layer, place: number, look: Look): HTMLElement {
  const from = (layer.sources ?? []).join(" and ");
  const share = h("i", {});
  share.style.width = `${(100 * Math.min(1, (num(layer.ms) ?? 0) / look.most)).toFixed(1)}%`;
  const button = h(
    "button",
    {
      type: "button",
      class: "nbd-node",
      "data-place": place,
      "data-mark": layer.severity || null,
      "data-joined": look.joined,
      "aria-pressed": String(layer.path === look.chosen()),
      "aria-label": `${spoken(layer)}${from ? `, input from ${from}` : ""}`,
      on: { click: () => look.choose(layer.path === look.chosen() ? "" : layer.path) },
    },
    share,
    h("b", {}, layer.name),
    h("small", { class: "nbd-quiet" }, layer.module),
    h("span", {}, layer.output),
    h("small", { class: "nbd-quiet" }, time(layer)),
    h("small", { class: `nbd-${layer.severity || "fine"}` }, SIGNS[layer.severity] ?? ""),
  );
  button.style.left = indent(layer.path);
  button.style.right = `${look.room}px`;
  return button;
}

function drawn({ from, to, lane }: Arc, middles: readonly number[]): SVGElement {
  const [top, foot] = [(middles[from] ?? 0) + 5, (middles[to] ?? 0) - 5];
  const x = 8 + LANE * (lane + 1);
  const d = `M0 ${top}H${x - 5}q5 0 5 5V${foot - 5}q0 5 -5 5H6`;
  return s("g", {}, s("path", { d, fill: "none" }), s("path", { d: `M0 ${foot}l7 -4v8z`, class: "nbd-tip" }));
}
