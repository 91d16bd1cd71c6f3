// The curves of a training, live: loss and validation with smoothing, logarithmic scale and zoom, the learning rate
// under them, and marks where findings appeared.

import type { RenderProps } from "@anywidget/types";
import { type Curve, groupsOf, inGroup, type Range, toCurve } from "../curves";
import { h, short } from "../dom";
import { asList, asObject, type Frame, frame, type Traits } from "../frame";
import { INKS, Plot } from "../plot";
import { Zoom } from "../zoom";

interface Finding {
  check: string;
  severity: string;
  says: string;
  where: string;
  step: number | null; // where it appeared, if anybody looked then
}

class CurveView {
  private readonly frame: Frame;
  private readonly head = h("header");
  private readonly bar = h("div", { class: "nbd-bar", role: "toolbar", "aria-label": "Curves" });
  private readonly legend = h("div", { class: "nbd-bar nbd-legend" });
  private readonly found = h("ul", { class: "nbd-said" });
  private readonly plots = h("div", {
    class: "nbd-plots",
    tabindex: 0,
    role: "group",
    "aria-label": "Curves; plus and minus zoom, arrow keys pan, 0 shows all",
  });
  private readonly main = new Plot("Loss per step", 230);
  private readonly rate = new Plot("Learning rate per step", 74);
  private readonly rateTitle = h("p", { class: "nbd-quiet" }, "learning rate");
  private readonly size: ResizeObserver | null;
  private curves: Curve[] = [];
  private rates: Curve[] = [];
  private findings: Finding[] = [];
  private hidden = new Set<string>();
  private log = false;
  private smooth = 0;
  private readonly zoom = new Zoom(
    () => this.bounds(),
    () => this.draw(),
  );
  private group = "";
  private width = 600;

  constructor(private readonly props: RenderProps<Traits>) {
    this.frame = frame(props.model, props.el, "curve", "Training curves", { data: this.update });
    this.plots.append(this.main.node, this.rateTitle, this.rate.node);
    this.frame.root.append(this.head, this.bar, this.legend, this.plots, this.found);
    this.drawBar();
    this.zoom.listen(this.plots, this.frame.root, (event) => this.stepAt(event));
    this.size =
      typeof ResizeObserver === "undefined" ? null : new ResizeObserver(([entry]) => this.resized(entry));
    this.size?.observe(this.plots);
    this.update();
  }

  close = (): void => {
    this.size?.disconnect();
    this.frame.close();
  };

  private resized(entry: ResizeObserverEntry | undefined): void {
    const width = Math.round(entry?.contentRect.width ?? 0);
    if (width > 0 && width !== this.width) {
      this.width = width;
      this.draw();
    }
  }

  private readonly update = (): void => {
    const data = asObject(this.props.model.get("data"));
    this.curves = asList<unknown>(data.curves).map(toCurve);
    this.rates = asList<unknown>(data.rates).map(toCurve);
    this.findings = asList<Finding>(data.findings);
    const state = data.running === true ? "recording" : "idle";
    this.head.replaceChildren(
      h(
        "h3",
        {},
        String(data.title ?? "Training"),
        h("span", { class: "nbd-quiet" }, ` · step ${short(Number(data.steps ?? 0))} · ${state}`),
      ),
      ...asList<string>(data.notes).map((note) => h("p", { class: "nbd-quiet" }, note)),
      this.frame.status,
    );
    for (const part of [this.bar, this.legend, this.plots]) part.hidden = data.empty === true;
    this.drawGroups();
    this.drawFindings();
    this.draw();
  };

  private readonly groups = h("select", {
    "aria-label": "Displayed curves",
    on: {
      change: () => {
        this.group = this.groups.value;
        this.draw();
      },
    },
  });

  private drawBar(): void {
    const log = h("input", {
      type: "checkbox",
      on: {
        change: () =>
          this.change(() => {
            this.log = log.checked;
          }),
      },
    });
    const smooth = h("input", {
      type: "range",
      min: 0,
      max: 0.99,
      step: 0.01,
      value: 0,
      on: {
        input: () =>
          this.change(() => {
            this.smooth = Number(smooth.value);
          }),
      },
    });
    const button = (text: string, label: string, act: () => void): HTMLElement =>
      h("button", { type: "button", "aria-label": label, title: label, on: { click: act } }, text);
    this.bar.append(
      h("label", {}, "show", this.groups),
      h("label", {}, log, "logarithmic"),
      h("label", {}, "smoothing", smooth),
      button("+", "Zoom in", () => this.zoom.by(0.5)),
      button("−", "Zoom out", () => this.zoom.by(2)),
      button("all", "Show all steps", () => this.zoom.all()),
    );
  }

  private change(act: () => void): void {
    act();
    this.draw();
  }

  private drawGroups(): void {
    const names = groupsOf(this.curves);
    if (!names.includes(this.group)) this.group = names[0] ?? "";
    if ([...this.groups.options].map((option) => option.value).join() === names.join()) return;
    this.groups.replaceChildren(
      ...names.map((name) => h("option", { value: name, selected: name === this.group }, name)),
    );
  }

  private drawFindings(): void {
    const lines = this.findings.map((finding) =>
      h(
        "li",
        { class: `nbd-${finding.severity}` },
        `${finding.step === null ? "" : `▼ step ${finding.step}: `}${finding.check}${finding.where ? ` at ${finding.where}` : ""}. ${finding.says}`,
      ),
    );
    this.found.replaceChildren(...lines);
  }

  private bounds(): Range {
    const every = [...this.curves, ...this.rates].flatMap((curve) => [
      curve.steps[0],
      curve.steps[curve.steps.length - 1],
    ]);
    const known = every.filter((step): step is number => step !== undefined);
    const [low, high] = [Math.min(0, ...known), Math.max(1, ...known)];
    return { low, high };
  }

  private stepAt(event: PointerEvent): number {
    const box = this.main.node.getBoundingClientRect();
    const x = (event.clientX - box.left) * (this.width / (box.width || this.width));
    return this.main.stepAt(x, this.zoom.range);
  }

  private draw(): void {
    const chosen = inGroup(this.curves, this.group);
    const shown = chosen.map((curve) =>
      this.hidden.has(curve.name) ? { ...curve, steps: [], values: [], low: null, high: null } : curve,
    );
    const steps = this.zoom.range;
    const markers = this.findings.flatMap((f) =>
      f.step === null ? [] : [{ step: f.step, label: `${f.check}: ${f.says}`, grave: f.severity === "bug" }],
    );
    this.main.draw(
      {
        curves: shown,
        steps,
        log: this.log,
        smooth: this.smooth,
        markers,
        withSteps: this.rates.length === 0,
      },
      this.width,
    );
    this.rate.node.style.display = this.rateTitle.style.display = this.rates.length > 0 ? "" : "none";
    this.rate.draw(
      { curves: this.rates, steps, log: false, smooth: 0, markers: [], withSteps: true },
      this.width,
    );
    this.drawLegend(chosen);
  }

  /** Names each curve with its newest value; a click hides it. */
  private drawLegend(curves: Curve[]): void {
    while (this.legend.children.length > curves.length) this.legend.lastElementChild?.remove();
    curves.forEach((curve, i) => {
      let button = this.legend.children[i] as HTMLButtonElement | undefined;
      if (button === undefined) {
        button = h(
          "button",
          { type: "button", on: { click: () => this.toggle(i) } },
          h("i", {}),
          h("span", {}),
        );
        this.legend.append(button);
      }
      const text = `${curve.name} ${short(curve.last)}`;
      const label = button.lastElementChild as HTMLElement;
      if (label.textContent !== text) label.textContent = text;
      (button.firstElementChild as HTMLElement).style.background = INKS[i % INKS.length] ?? "";
      button.setAttribute("aria-pressed", String(!this.hidden.has(curve.name)));
    });
  }

  private toggle(place: number): void {
    const name = inGroup(this.curves, this.group)[place]?.name;
    if (name === undefined) return;
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.draw();
  }
}

export default {
  render(props: RenderProps<Traits>): () => void {
    return new CurveView(props).close;
  },
};
