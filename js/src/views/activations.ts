// The values of every layer in one picture, a strip of color a layer over common bins; a click shows one layer's own
// histogram, before and after its nonlinearity. From a watch, a slider goes through the steps of the training.

import type { RenderProps } from "@anywidget/types";
import { h, percent, short, write } from "../dom";
import { asList, asObject, type Frame, frame, type Traits } from "../frame";
import { type Column, Grid } from "../grid";
import { type Bins, histograms, strip } from "../heat";
import { num } from "../numbers";
import { Selection } from "../selection";

interface Layer {
  path: string;
  module: string;
  shape: string;
  mean: unknown;
  std: unknown;
  low: unknown;
  high: unknown;
  zeros: unknown;
  bad: unknown; // the fraction of values that are NaN or Inf
  dead: unknown;
  saturated: unknown;
  calls: number;
  counts: number[];
  own: Bins | null;
  before: Bins | null;
}

const MUCH = 0.5; // of the units; said in orange from here on

class Activations {
  private readonly frame: Frame;
  private readonly head = h("header");
  private readonly axis = h("div", { class: "nbd-axis", "aria-hidden": "true" });
  private readonly slider = h("div", { class: "nbd-bar" });
  private readonly detail = h("div", { class: "nbd-detail", "aria-live": "polite" });
  private readonly grid: Grid<Layer>;
  private readonly selection: Selection<Layer>;
  private layers: Layer[] = [];
  private open = -1; // the layer that is shown by itself

  constructor(private readonly props: RenderProps<Traits>) {
    const mark = (layer: Layer): string => this.selection.mark(layer) || ill(layer);
    this.grid = new Grid("Layers", this.columns(), (layer) => this.spoken(layer), this.show, mark);
    this.selection = new Selection(props.model, this.grid, (layer) => layer.path);
    this.frame = frame(props.model, props.el, "activations", "Activations", {
      data: this.update,
      ...this.selection.on(this.update),
    });
    this.frame.root.append(this.head, this.slider, this.grid.node, this.detail);
    this.grid.listen(this.frame.root);
    this.update();
  }

  close = (): void => this.frame.close();

  private columns(): Column<Layer>[] {
    const share = (value: unknown): Node => {
      const found = num(value);
      return h("span", { class: found !== null && found >= MUCH ? "nbd-bad" : "" }, percent(found));
    };
    return [
      {
        name: "layer",
        cell: (l) => h("span", {}, l.path, h("small", { class: "nbd-quiet" }, ` ${l.module}`)),
      },
      { name: "values", wide: true, head: () => this.axis, cell: (l) => strip(l.counts) },
      { name: "mean", key: (l) => num(l.mean), cell: (l) => short(num(l.mean)) },
      { name: "std", key: (l) => num(l.std), cell: (l) => short(num(l.std)) },
      {
        name: "zero",
        title: "fraction of values that are exactly 0",
        key: (l) => num(l.zeros),
        cell: (l) => percent(num(l.zeros)),
      },
      {
        name: "dead",
        title: "fraction of units that are 0 for every sample (dead)",
        key: (l) => num(l.dead),
        cell: (l) => share(l.dead),
      },
      {
        name: "flat",
        title: "fraction of units that are saturated for almost every sample",
        key: (l) => num(l.saturated),
        cell: (l) => share(l.saturated),
      },
      {
        name: "NaN",
        title: "fraction of values that are NaN or Inf",
        key: bad,
        cell: (l) => (bad(l) > 0 ? h("span", { class: "nbd-bad" }, percent(bad(l))) : ""),
      },
    ];
  }

  private readonly update = (): void => {
    const data = asObject(this.props.model.get("data"));
    this.layers = asList<Layer>(data.layers);
    this.head.replaceChildren(
      h("h3", {}, "Activations"),
      h(
        "p",
        { class: "nbd-quiet" },
        `${String(data.says ?? "")}. Brighter: more values (per layer). ${String(data.axis ?? "")}`,
      ),
      this.frame.status,
    );
    this.drawAxis(asList<unknown>(data.edges));
    this.drawSlider(asObject(data.frames));
    this.detail.replaceChildren();
    this.selection.show(this.layers);
  };

  private drawAxis(edges: unknown[]): void {
    const marks = [0, 0.25, 0.5, 0.75, 1].map((part) => {
      const edge = num(edges[Math.round(part * (edges.length - 1))]);
      return h("span", {}, part === 0.5 ? "0" : short(edge));
    });
    this.axis.replaceChildren(...marks);
  }

  private drawSlider(frames: Record<string, unknown>): void {
    const steps = asList<number>(frames.steps);
    this.slider.hidden = steps.length === 0;
    if (steps.length < 2) {
      this.slider.replaceChildren(h("output", {}, `step ${steps[0]}`)); // nothing to slide over, and still a moment
      return;
    }
    const shares = decode(String(frames.shares ?? ""));
    const numbers = new Float32Array(decode(String(frames.numbers ?? "")).buffer);
    const bins = shares.length / (steps.length * this.layers.length);
    const told = h("output", {}, `step ${steps[steps.length - 1]}`);
    const input = h("input", {
      type: "range",
      min: 0,
      max: steps.length - 1,
      value: steps.length - 1,
      "aria-label": "Training step",
      on: {
        input: () => {
          const at = Number(input.value);
          write(told, `step ${steps[at]}`);
          this.layers.forEach((layer, i) => {
            const from = (at * this.layers.length + i) * bins;
            layer.counts = Array.from(shares.slice(from, from + bins));
            number(layer, numbers, at * this.layers.length + i);
          });
          this.grid.show(this.layers);
          this.show(this.open);
        },
      },
    });
    this.slider.replaceChildren(h("label", {}, "training", input), told);
  }

  private spoken(layer: Layer): string {
    const said = [
      `${layer.path}, ${layer.module}`,
      `mean ${short(num(layer.mean))}`,
      `std ${short(num(layer.std))}`,
    ];
    if (num(layer.dead) !== null) said.push(`${percent(num(layer.dead))} dead`);
    if (num(layer.saturated) !== null) said.push(`${percent(num(layer.saturated))} saturated`);
    return said.join(", ");
  }

  private readonly show = (place: number): void => {
    const layer = this.layers[place];
    this.open = place;
    this.selection.chosen(place);
    if (layer === undefined || asObject(this.props.model.get("data")).beside === true) {
      this.detail.replaceChildren();
      return;
    }
    const parts = [
      ...(layer.own ? [{ name: layer.before ? "after" : "output", bins: layer.own }] : []),
      ...(layer.before ? [{ name: "before the nonlinearity", bins: layer.before }] : []),
    ];
    const facts = [
      layer.shape,
      `from ${short(num(layer.low))} to ${short(num(layer.high))}`,
      layer.calls > 1 ? `called ${layer.calls} times` : "",
      bad(layer) > 0 ? `${percent(bad(layer))} of the values are NaN or Inf` : "",
    ];
    this.detail.replaceChildren(
      h("h4", {}, `${layer.path} · ${layer.module}`),
      h("p", { class: "nbd-quiet" }, facts.filter((fact) => fact !== "").join(" · ")),
      ...(parts.length > 0 ? [histograms(parts, `values of ${layer.path}`)] : []),
    );
  };
}

function bad(layer: Layer): number {
  return num(layer.bad) ?? 0;
}

/** Gives a layer the numbers of one moment, so that they belong to the strip beside them. */
function number(layer: Layer, numbers: Float32Array, place: number): void {
  const [mean, std, top, zeros, share] = numbers.subarray(5 * place, 5 * place + 5);
  if (top === undefined) return;
  Object.assign(layer, { mean, std, low: -top, high: top, zeros, bad: share });
}

function ill(layer: Layer): string {
  const worst = Math.max(num(layer.dead) ?? 0, num(layer.saturated) ?? 0);
  return bad(layer) > 0 ? "bug" : worst >= MUCH ? "suspect" : "";
}

function decode(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

export default {
  render(props: RenderProps<Traits>): () => void {
    return new Activations(props).close;
  },
};
