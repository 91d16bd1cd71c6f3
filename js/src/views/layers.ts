// Every module of a model: shapes, parameters, time, memory and what was found at it; a click shows one by itself.

import type { RenderProps } from "@anywidget/types";
import { h, onlyBox, short } from "../dom";
import { asList, asObject, type Frame, frame, type Traits } from "../frame";
import { bar, type Column, Grid } from "../grid";
import { bytes, large, num } from "../numbers";

interface Layer {
  path: string;
  name: string;
  module: string;
  depth: number;
  leaf: boolean;
  inputs: string[];
  output: string;
  parameters: number;
  trainable: number;
  ms: unknown;
  flops: number | null;
  bytes: number;
  weights: number;
  calls: number;
  severity: string;
  findings: string[];
}

const SIGNS: Record<string, string> = { bug: "✕ bug", suspect: "▲ suspect", note: "● note" };

class Layers {
  private readonly frame: Frame;
  private readonly head = h("header");
  private readonly bar = h("div", { class: "nbd-bar" });
  private readonly detail = h("div", { class: "nbd-detail", "aria-live": "polite" });
  private readonly grid: Grid<Layer>;
  private every: Layer[] = [];
  private shown: Layer[] = [];
  private leaves = false;

  constructor(private readonly props: RenderProps<Traits>) {
    this.frame = frame(props.model, props.el, "Layers", { data: this.update });
    this.grid = new Grid("Modules", this.columns(), spoken, this.show, (layer) => layer.severity);
    this.frame.root.append(this.head, this.bar, this.grid.node, this.detail);
    this.grid.listen(this.frame.root);
    this.update();
  }

  close = (): void => this.frame.close();

  private columns(): Column<Layer>[] {
    const meter = (name: string, value: (l: Layer) => number, text: (l: Layer) => string): Column<Layer> => ({
      name,
      key: (l) => (l.calls > 0 ? value(l) : null),
      cell: (l) => (l.calls > 0 ? bar(value(l) / this.most(value), text(l)) : ""),
    });
    return [
      {
        name: "layer",
        cell: (l) => {
          const label = h("span", {}, l.name, h("small", { class: "nbd-quiet" }, ` ${l.module}`));
          label.style.paddingLeft = this.leaves ? "0" : `${14 * l.depth}px`;
          if (this.leaves) label.firstChild?.replaceWith(l.path);
          return label;
        },
      },
      {
        name: "output",
        cell: (l) => (l.calls > 0 ? l.output : h("span", { class: "nbd-bad" }, "not called")),
      },
      {
        name: "parameters",
        key: (l) => l.parameters,
        cell: (l) =>
          l.parameters > 0 ? bar(l.parameters / this.most((x) => x.parameters), large(l.parameters)) : "",
      },
      meter(
        "time",
        (l) => num(l.ms) ?? 0,
        (l) => `${short(num(l.ms))} ms`,
      ),
      meter(
        "memory",
        (l) => l.bytes,
        (l) => bytes(l.bytes),
      ),
      {
        name: "health",
        key: (l) => ["bug", "suspect", "note", ""].indexOf(l.severity),
        cell: (l) => h("span", { class: `nbd-${l.severity || "fine"}` }, SIGNS[l.severity] ?? ""),
      },
    ];
  }

  /** The most among the rows; the whole model would make every bar small. */
  private most(value: (layer: Layer) => number): number {
    return Math.max(1e-12, ...this.every.filter((layer) => layer.leaf || layer.depth > 0).map(value));
  }

  private readonly update = (): void => {
    const data = asObject(this.props.model.get("data"));
    this.every = asList<Layer>(data.layers);
    this.head.replaceChildren(
      h("h3", {}, "Layers"),
      h("p", { class: "nbd-quiet" }, String(data.says ?? "")),
      this.frame.status,
    );
    this.bar.replaceChildren(
      onlyBox("innermost modules only", this.leaves, (on) => {
        this.leaves = on;
        this.draw();
      }),
    );
    this.draw();
  };

  private draw(): void {
    this.shown = this.every.filter((layer) => !this.leaves || layer.leaf);
    this.detail.replaceChildren();
    this.grid.show(this.shown);
  }

  private readonly show = (place: number): void => {
    const layer = this.shown[place];
    if (layer === undefined) {
      this.detail.replaceChildren();
      return;
    }
    const frozen = layer.parameters - layer.trainable;
    const facts: [string, string][] = [
      ["takes in", layer.inputs.join("; ") || "nothing that is a tensor"],
      ["gives", layer.calls > 0 ? layer.output : "not called in this pass"],
      ["calls", String(layer.calls)],
      [
        "parameters",
        `${layer.parameters.toLocaleString("en")}${frozen > 0 ? `, ${frozen.toLocaleString("en")} of them frozen` : ""}`,
      ],
      ["memory of parameters", bytes(layer.weights)],
      ["memory of the output", bytes(layer.bytes)],
      ["time", `${short(num(layer.ms))} ms`],
      ...(layer.flops !== null ? ([["operations", `${large(layer.flops)} FLOP`]] as [string, string][]) : []),
    ];
    this.detail.replaceChildren(
      h("h4", {}, `${layer.path} · ${layer.module}`),
      ...layer.findings.map((said) => h("p", { class: `nbd-${layer.severity}` }, said)),
      h(
        "dl",
        { class: "nbd-facts" },
        ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
      ),
    );
  };
}

function spoken(layer: Layer): string {
  const health = layer.severity ? `, ${layer.severity}` : "";
  return `${layer.path}, ${layer.module}, output ${layer.output}, ${layer.parameters} parameters${health}`;
}

export default {
  render(props: RenderProps<Traits>): () => void {
    return new Layers(props).close;
  },
};
