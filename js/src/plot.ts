// One plot of curves over steps in SVG. Its elements stay and only their places change, so that nothing flickers.

import { type Curve, gaps, type Range, smoothed, spanOf, ticks, within } from "./curves";
import { s, short } from "./dom";
import { through } from "./sparks";

export interface Marker {
  step: number;
  label: string;
  grave: boolean;
}

export interface Drawing {
  curves: Curve[];
  steps: Range;
  log: boolean;
  smooth: number;
  markers: Marker[];
  withSteps: boolean;
}

export const INKS = ["var(--nbd-blue)", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
export const LEFT = 52;
const RIGHT = 10;
const TOP = 6;
const FEW = 20; // points of a curve that is left as it is, such as one value an epoch

export class Plot {
  readonly node: SVGSVGElement;
  private width = 600;
  private readonly grid = s("g", { class: "nbd-gridlines" });
  private readonly bands = s("g");
  private readonly lines = s("g", { fill: "none" });
  private readonly marks = s("g");
  private readonly crosses = s("g", { class: "nbd-gaps" });

  constructor(
    label: string,
    private readonly height: number,
  ) {
    this.node = s(
      "svg",
      { class: "nbd-plot", role: "img", "aria-label": label },
      this.grid,
      this.bands,
      this.lines,
      this.marks,
      this.crosses,
    );
  }

  stepAt(x: number, steps: Range): number {
    const part = (x - LEFT) / (this.width - LEFT - RIGHT);
    return steps.low + Math.min(1, Math.max(0, part)) * (steps.high - steps.low);
  }

  draw(given: Drawing, width: number): void {
    this.width = Math.max(240, width);
    const { steps, log } = given;
    const bottom = this.height - (given.withSteps ? 20 : 6);
    const smooth = given.curves.map((curve) => {
      const values = smoothed(curve.values, curve.values.length < FEW ? 0 : given.smooth);
      return within({ ...curve, values }, steps);
    });
    const curves = given.curves.map((curve) => within(curve, steps));
    const drawing = { ...given, curves };
    const span = spanOf(drawing.smooth > 0.5 ? smooth : curves, steps, log);
    const scale = (v: number): number => (log ? Math.log10(Math.max(v, 1e-300)) : v);
    const [low, high] = [scale(span.low), scale(span.high)];
    const x = (step: number): number =>
      LEFT + ((step - steps.low) / (steps.high - steps.low || 1)) * (this.width - LEFT - RIGHT);
    const y = (v: number): number => bottom - ((scale(v) - low) / (high - low || 1)) * (bottom - TOP);
    this.node.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.node.setAttribute("height", String(this.height));
    this.axes(drawing, span, x, y, bottom);
    this.paths(drawing, smooth, x, y);
    this.markers(drawing, x, bottom);
    this.drawGaps(drawing, x, bottom);
  }

  private axes(
    drawing: Drawing,
    span: Range,
    x: (v: number) => number,
    y: (v: number) => number,
    bottom: number,
  ): void {
    const nodes: Element[] = [];
    for (const mark of ticks(span, 4, drawing.log)) {
      const at = y(mark).toFixed(1);
      nodes.push(
        s("path", {
          d: `M${LEFT} ${at}H${this.width - RIGHT}`,
          stroke: "var(--nbd-edge)",
          "stroke-width": 0.6,
        }),
      );
      nodes.push(s("text", { x: LEFT - 6, y: Number(at) + 4, "text-anchor": "end" }, short(mark)));
    }
    for (const mark of drawing.withSteps ? ticks(drawing.steps, this.width / 120, false) : []) {
      nodes.push(s("text", { x: x(mark).toFixed(1), y: bottom + 16, "text-anchor": "middle" }, short(mark)));
    }
    this.grid.replaceChildren(...nodes);
  }

  private paths(drawing: Drawing, smooth: Curve[], x: (v: number) => number, y: (v: number) => number): void {
    const line = (curve: Curve): string =>
      through(
        curve.values.map((value) => (drawing.log && (value ?? 0) <= 0 ? null : value)),
        (i) => x(curve.steps[i] ?? 0).toFixed(1),
        (v) => y(v).toFixed(1),
      );
    reuse(this.bands, 2 * drawing.curves.length);
    reuse(this.lines, drawing.curves.length);
    drawing.curves.forEach((curve, i) => {
      const ink = INKS[i % INKS.length] ?? "currentColor";
      const raw = drawing.smooth > 0 ? line(curve) : "";
      set(this.bands.children[2 * i], { d: area(curve, x, y, drawing), fill: ink, "fill-opacity": 0.14 });
      set(this.bands.children[2 * i + 1], { d: raw, fill: "none", stroke: ink, "stroke-opacity": 0.3 });
      set(this.lines.children[i], {
        d: line(smooth[i] ?? curve),
        stroke: ink,
        "stroke-width": 1.8,
        "stroke-linejoin": "round",
      });
    });
  }

  private markers(drawing: Drawing, x: (v: number) => number, bottom: number): void {
    const shown = drawing.markers.filter(
      ({ step }) => step >= drawing.steps.low && step <= drawing.steps.high,
    );
    const nodes = shown.flatMap(({ step, label, grave }) => {
      const at = x(step).toFixed(1);
      const ink = grave ? "var(--nbd-pink)" : "var(--nbd-orange)";
      return [
        s("path", { d: `M${at} ${TOP}V${bottom}`, stroke: ink, "stroke-dasharray": "4 3" }),
        s("path", { d: `M${at} ${TOP}l-5 -6h10z`, fill: ink }, s("title", {}, label)),
      ];
    });
    this.marks.replaceChildren(...nodes);
  }

  /** Says at the foot of the plot where a curve has no finite value, because a gap alone looks like an end. */
  private drawGaps(drawing: Drawing, x: (v: number) => number, bottom: number): void {
    const every = drawing.curves.map((curve) => gaps(curve, drawing.steps, x));
    const nodes: Element[] = every.map((places, i) => {
      const foot = bottom - 6 - 9 * i;
      const d = places.map((at) => `M${(at - 3).toFixed(1)} ${foot - 3}l6 6m0 -6l-6 6`).join("");
      const title = s("title", {}, `${drawing.curves[i]?.name}: non-finite (NaN or Inf)`);
      return s("path", { d, fill: "none", stroke: INKS[i % INKS.length], "stroke-width": 1.4 }, title);
    });
    if (every.flat().length > 0) {
      const first = Math.min(...every.flat());
      const anchor = first > this.width - 90 ? "end" : "start";
      const y = bottom - 8 - 9 * every.length;
      nodes.push(s("text", { x: first.toFixed(1), y, "text-anchor": anchor }, "× not finite"));
    }
    this.crosses.replaceChildren(...nodes);
  }
}

/** The range that each point of a curve stands for. */
function area(curve: Curve, x: (v: number) => number, y: (v: number) => number, drawing: Drawing): string {
  const { low, high, steps } = curve;
  if (low === null || high === null) return "";
  const points = steps.flatMap((step, i) => {
    const [a, b] = [low[i] ?? null, high[i] ?? null];
    return a === null || b === null || (drawing.log && a <= 0) ? [] : [[x(step), y(a), y(b)] as const];
  });
  if (points.length < 2) return "";
  const up = points.map(([at, , top]) => `${at.toFixed(1)} ${top.toFixed(1)}`);
  const down = [...points].reverse().map(([at, foot]) => `${at.toFixed(1)} ${foot.toFixed(1)}`);
  return `M${up.join("L")}L${down.join("L")}Z`;
}

function reuse(group: SVGGElement, count: number): void {
  while (group.children.length < count) group.append(s("path"));
  while (group.children.length > count) group.lastElementChild?.remove();
}

function set(node: Element | undefined, attributes: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(attributes)) node?.setAttribute(name, String(value));
}
