// Every module of a model: shapes, parameters, time, memory and what was found at it, as a table or as the way through
// the model; a click shows one by itself.

import type { RenderProps } from "@anywidget/types";
import { h, onlyBox } from "../dom";
import { flowChart } from "../flow";
import { asList, asObject, type Frame, frame, oneTabStop, type Traits } from "../frame";
import { bar, type Column, Grid } from "../grid";
import { type Layer, SIGNS, spoken, time } from "../layers";
import { bytes, large, num } from "../numbers";
import { placeOf, Selection } from "../selection";

class Layers {
  private readonly frame: Frame;
  private readonly head = h("header");
  private readonly bar = h("div", { class: "nbd-bar" });
  private readonly detail = h("div", { class: "nbd-detail", "aria-live": "polite" });
  private readonly body = h("div");
  private readonly grid: Grid<Layer>;
  private readonly selection: Selection<Layer>;
  private every: Layer[] = [];
  private shown: Layer[] = [];
  private leaves = false;
  private asGraph = false;
  private chosen = ""; // the path of the module whose details are open

  constructor(private readonly props: RenderProps<Traits>) {
    this.grid = new Grid("Modules", this.columns(), spoken, this.show, (layer) => layer.severity);
    this.selection = new Selection(props.model, this.grid, (layer) => layer.path);
    this.frame = frame(props.model, props.el, "layers", "Layers", {
      data: this.update,
      selected: this.follow,
    });
    this.frame.root.append(this.head, this.bar, this.body, this.detail);
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
        // beside the name, so that it is seen where the table is wider than the page
        name: "health",
        key: (l) => ["bug", "suspect", "note", ""].indexOf(l.severity),
        cell: (l) => h("span", { class: `nbd-${l.severity || "fine"}` }, SIGNS[l.severity] ?? ""),
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
      meter("time", (l) => num(l.ms) ?? 0, time),
      meter(
        "memory",
        (l) => l.bytes,
        (l) => bytes(l.bytes),
      ),
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
    this.chosen = "";
    this.draw();
  };

  private draw(): void {
    const view = (text: string, graph: boolean): HTMLElement =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(this.asGraph === graph),
          on: { click: () => this.turn(graph) },
        },
        text,
      );
    const leaves = onlyBox("leaf modules only", this.leaves, (on) => {
      this.leaves = on;
      this.drawBody();
    });
    this.bar.replaceChildren(view("Table", false), view("Graph", true), ...(this.asGraph ? [] : [leaves]));
    this.drawBody();
  }

  private turn(graph: boolean): void {
    this.asGraph = graph;
    this.chosen = "";
    this.draw();
    this.bar.querySelector<HTMLElement>("[aria-pressed=true]")?.focus();
  }

  private drawBody(): void {
    this.shown = this.every.filter((layer) => this.asGraph || !this.leaves || layer.leaf);
    this.detail.replaceChildren();
    if (!this.asGraph) {
      this.body.replaceChildren(this.grid.node);
      this.selection.show(this.shown);
      return;
    }
    this.drawGraph();
    this.follow();
  }

  /** Shows what is selected in another view, in the table or in the graph. */
  private readonly follow = (): void => {
    const names = this.shown.map((layer) => layer.path);
    const place = placeOf(names, this.props.model.get("selected") ?? "");
    if (this.asGraph) this.show(place);
    else this.grid.choose(place);
  };

  private drawGraph(): void {
    const choose = (path: string): void => this.show(this.every.findIndex((layer) => layer.path === path));
    this.body.replaceChildren(flowChart({ every: this.every, chosen: () => this.chosen, choose }));
    oneTabStop(this.body, "[data-place]", 0);
  }

  private readonly show = (place: number): void => {
    const layer = this.shown[place];
    this.chosen = layer?.path ?? "";
    this.selection.chosen(
      place,
      this.shown.map((each) => each.path),
    );
    for (const each of this.body.querySelectorAll<HTMLElement>(".nbd-node")) {
      each.setAttribute("aria-pressed", String(Number(each.dataset.place) === place));
    }
    if (layer === undefined) {
      this.detail.replaceChildren();
      return;
    }
    const frozen = layer.parameters - layer.trainable;
    const facts: [string, string][] = [
      ["input", layer.inputs.join("; ") || "no tensor"],
      ["output", layer.calls > 0 ? layer.output : "not called in this pass"],
      ["calls", String(layer.calls)],
      [
        "parameters",
        `${layer.parameters.toLocaleString("en")}${frozen > 0 ? `, ${frozen.toLocaleString("en")} of them frozen` : ""}`,
      ],
      ["parameter memory", bytes(layer.weights)],
      ["output memory", bytes(layer.bytes)],
      ["time", time(layer)],
      ...((layer.sources ?? []).length > 0
        ? ([["input from", layer.sources?.join(", ")]] as [string, string][])
        : []),
      ...(layer.flops !== null ? ([["FLOPs", `${large(layer.flops)} FLOP`]] as [string, string][]) : []),
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

export default {
  render(props: RenderProps<Traits>): () => void {
    return new Layers(props).close;
  },
};
