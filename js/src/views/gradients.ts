// The norm of every parameter's gradient beside its own norm and the step that it takes, on logarithmic scales; the
// healthy range of steps is shaded. A click shows the histograms of one parameter.

import type { RenderProps } from "@anywidget/types";
import { h, onlyBox, short } from "../dom";
import { asList, asObject, type Frame, frame, type Traits } from "../frame";
import { bar, type Column, Grid } from "../grid";
import { type Bins, histograms } from "../heat";
import { decades, num } from "../numbers";
import { Selection } from "../selection";

interface Parameter {
  name: string;
  shape: string;
  matrix: boolean;
  trained: boolean;
  weight: unknown;
  gradient: unknown;
  update: unknown;
  weights: Bins | null;
  gradients: Bins | null;
}

type Scale = ReturnType<typeof decades>;
const NONE: Scale = decades([]);

class Gradients {
  private readonly frame: Frame;
  private readonly head = h("header");
  private readonly bar = h("div", { class: "nbd-bar" });
  private readonly detail = h("div", { class: "nbd-detail", "aria-live": "polite" });
  private readonly grid: Grid<Parameter>;
  private readonly selection: Selection<Parameter>;
  private every: Parameter[] = [];
  private shown: Parameter[] = [];
  private matrices = false;
  private band: [number, number] = [0, 0];
  private scales = { gradient: NONE, weight: NONE, update: NONE };

  constructor(private readonly props: RenderProps<Traits>) {
    this.grid = new Grid("Parameters", this.columns(), spoken, this.show, (p) => this.mark(p));
    this.selection = new Selection(props.model, this.grid, (parameter) => parameter.name);
    this.frame = frame(props.model, props.el, "gradients", "Gradients", {
      data: this.update,
      ...this.selection.on(this.update),
    });
    this.frame.root.append(this.head, this.bar, this.grid.node, this.detail);
    this.grid.listen(this.frame.root);
    this.update();
  }

  close = (): void => this.frame.close();

  private columns(): Column<Parameter>[] {
    const meter = (name: "gradient" | "weight" | "update", title: string): Column<Parameter> => ({
      name: { gradient: "gradient", weight: "weight", update: "update / weight" }[name],
      title,
      wide: true,
      key: (p) => num(p[name]),
      cell: (p) => this.meter(name, p),
    });
    return [
      {
        name: "parameter",
        cell: (p) => h("span", {}, p.name, h("small", { class: "nbd-quiet" }, ` ${p.shape}`)),
      },
      meter("gradient", "gradient norm, log scale"),
      meter("weight", "parameter norm, log scale"),
      meter("update", "update of one step relative to the parameter, log scale; the normal range is shaded"),
    ];
  }

  private meter(name: "gradient" | "weight" | "update", parameter: Parameter): HTMLElement {
    const value = num(parameter[name]);
    if (value === null) return h("span", { class: "nbd-quiet" }, parameter.trained ? "none" : "frozen");
    const scale = this.scales[name];
    const bad =
      !Number.isFinite(value) ||
      (name === "gradient" && value === 0) ||
      (name === "update" && this.isOff(parameter));
    const drawn = bar(value > 0 ? scale.at(value) : 0, short(value), bad ? "nbd-off" : "");
    if (name === "update") {
      const [low, high] = this.band.map((edge) => 100 * Math.min(1, Math.max(0, scale.at(edge)))) as [
        number,
        number,
      ];
      const shade = h("b", { class: "nbd-shade" });
      shade.style.left = `${low}%`;
      shade.style.width = `${high - low}%`;
      drawn.firstElementChild?.prepend(shade);
    }
    return drawn;
  }

  /** Only matrices have a usual step; biases and scales that begin at 0 may make any. */
  private isOff(parameter: Parameter): boolean {
    const value = num(parameter.update);
    return parameter.matrix && value !== null && !(value >= this.band[0] && value <= this.band[1]);
  }

  private mark(parameter: Parameter): string {
    const found = this.selection.mark(parameter);
    if (found !== "") return found;
    const gradient = num(parameter.gradient);
    if (gradient !== null && !Number.isFinite(gradient)) return "bug";
    const silent = parameter.trained && (gradient === null || gradient === 0);
    return silent || this.isOff(parameter) ? "suspect" : "";
  }

  private readonly update = (): void => {
    const data = asObject(this.props.model.get("data"));
    this.every = asList<Parameter>(data.parameters);
    const band = asList<number>(data.band);
    this.band = [band[0] ?? 0, band[1] ?? 0];
    const all = (name: "gradient" | "weight" | "update"): (number | null)[] =>
      this.every.map((p) => num(p[name]));
    this.scales = {
      gradient: decades(all("gradient")),
      weight: decades(all("weight")),
      update: decades([...all("update"), ...this.band]),
    };
    const healthy = `The normal range of update/weight, ${short(this.band[0])} to ${short(this.band[1])}, is shaded.`;
    this.head.replaceChildren(
      h("h3", {}, "Gradients"),
      h("p", { class: "nbd-quiet" }, `${String(data.says ?? "")}. Log scales. ${healthy}`),
      this.frame.status,
    );
    this.bar.replaceChildren(
      onlyBox("weight matrices only", this.matrices, (on) => {
        this.matrices = on;
        this.draw();
      }),
    );
    this.draw();
  };

  private draw(): void {
    this.shown = this.every.filter((p) => !this.matrices || p.matrix);
    this.detail.replaceChildren();
    this.selection.show(this.shown);
  }

  private readonly show = (place: number): void => {
    const parameter = this.shown[place];
    this.selection.chosen(place);
    if (parameter === undefined || asObject(this.props.model.get("data")).beside === true) {
      this.detail.replaceChildren();
      return;
    }
    const drawn = [
      { name: "gradient", bins: parameter.gradients },
      { name: "weight", bins: parameter.weights },
    ].flatMap(({ name, bins }) =>
      bins ? [histograms([{ name, bins }], `${name} of ${parameter.name}`)] : [],
    );
    this.detail.replaceChildren(
      h("h4", {}, `${parameter.name} · ${parameter.shape}`),
      drawn.length > 0
        ? h("div", { class: "nbd-pair" }, ...drawn)
        : h("p", { class: "nbd-quiet" }, "Recordings contain norms, but no parameter histograms."),
    );
  };
}

function spoken(parameter: Parameter): string {
  const said = (name: string, value: unknown): string => {
    const found = num(value);
    return `${name} ${found === null ? "none" : short(found)}`;
  };
  return [
    parameter.name,
    said("gradient", parameter.gradient),
    said("weight", parameter.weight),
    said("update", parameter.update),
  ].join(", ");
}

export default {
  render(props: RenderProps<Traits>): () => void {
    return new Gradients(props).close;
  },
};
