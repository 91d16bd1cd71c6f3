// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from "vitest";
import { arcsOf } from "../src/flow";
import activations from "../src/views/activations";
import curve from "../src/views/curve";
import gradients from "../src/views/gradients";
import layers from "../src/views/layers";
import { FakeModel } from "./fake-model";

const HOSTILE = '<img src=x onerror="globalThis.hacked = true">';
const bins = { low: -1, high: 1, counts: [1, 2, 1] };
const layer = (path: string, more = {}) => ({
  path,
  module: "ReLU",
  shape: "4 × 2",
  mean: 0.5,
  std: 1,
  low: 0,
  high: 2,
  zeros: 0.25,
  bad: 0,
  dead: null,
  saturated: null,
  calls: 1,
  counts: [0, 3, 1],
  own: bins,
  before: bins,
  ...more,
});
const parameter = (name: string, more = {}) => ({
  name,
  shape: "4 × 2",
  matrix: true,
  trained: true,
  weight: 2,
  gradient: 0.1,
  update: 1e-3,
  weights: bins,
  gradients: bins,
  ...more,
});
const module = (path: string, more = {}) => ({
  path,
  name: path,
  module: "Linear",
  depth: 1,
  leaf: true,
  inputs: ["4 × 2"],
  output: "4 × 3",
  parameters: 9,
  trainable: 9,
  ms: 0.5,
  flops: 48,
  bytes: 48,
  weights: 36,
  calls: 1,
  severity: "",
  findings: [],
  ...more,
});

let el: HTMLElement;
let model: FakeModel;
let unmount: () => void;
// biome-ignore lint/suspicious/noExplicitAny: the four views have the same shape
const open = (view: any, data: unknown) => {
  model = new FakeModel({ data, detail: {}, status: "", key: "abc", request: {} });
  unmount = view.render(model.props(el));
};
const rows = () => [...el.querySelectorAll<HTMLElement>("tbody tr")];
const press = (node: Element | null | undefined, key: string) =>
  node?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

beforeEach(() => {
  document.body.replaceChildren();
  el = document.createElement("div");
  document.body.append(el);
});

describe("activations", () => {
  const data = {
    says: "2 layers",
    edges: [-1, -0.3, 0.3, 1],
    axis: "",
    layers: [layer("a"), layer(HOSTILE, { dead: 0.9, mean: "NaN", bad: 0.03 })],
    frames: null,
  };

  it("has a row a layer, and marks the ill one", () => {
    open(activations, data);
    expect(rows().map((row) => row.dataset.mark)).toEqual([undefined, "bug"]);
    expect(rows()[1]?.textContent).toContain("90 %");
    expect(el.querySelector("img")).toBeNull();
  });

  it("shows one layer before and after its nonlinearity, and lets Escape close it", () => {
    open(activations, data);
    const first = rows()[0]?.querySelector("button");
    first?.click();
    const detail = el.querySelector(".nbd-detail");
    expect(detail?.textContent).toContain("before the nonlinearity");
    expect(rows()[0]?.getAttribute("aria-selected")).toBe("true");
    press(first, "Escape");
    expect(detail?.childElementCount).toBe(0);
  });

  it("moves among layers by the arrow keys", () => {
    open(activations, data);
    const buttons = rows().map((row) => row.querySelector("button"));
    buttons[0]?.focus();
    press(buttons[0], "ArrowDown");
    expect(document.activeElement).toBe(buttons[1]);
  });

  it("names the step where there is only one", () => {
    open(activations, { ...data, frames: { steps: [7], shares: "", numbers: "" } });
    expect(el.querySelector("output")?.textContent).toBe("step 7");
    expect(el.querySelector("input[type=range]")).toBeNull();
  });

  it("goes through the steps of a training", () => {
    const shares = btoa(String.fromCharCode(...[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
    const floats = new Float32Array(
      [...Array(20).keys()].map((place) => (place % 5 === 4 ? 1 : place + 0.5)),
    );
    const numbers = btoa(String.fromCharCode(...new Uint8Array(floats.buffer)));
    open(activations, { ...data, frames: { steps: [10, 20], shares, numbers } });
    const slider = el.querySelector("input[type=range]") as HTMLInputElement;
    expect(el.querySelector("output")?.textContent).toBe("step 20");
    slider.value = "0";
    slider.dispatchEvent(new Event("input"));
    expect(el.querySelector("output")?.textContent).toBe("step 10");
    // The numbers beside the strips are those of the same step.
    const cells = (row: HTMLElement | undefined) =>
      [...(row?.children ?? [])].map((cell) => cell.textContent);
    expect(cells(rows()[0]).slice(2, 4)).toEqual(["0.5", "1.5"]);
    expect(cells(rows()[1]).slice(2, 4)).toEqual(["5.5", "6.5"]);
    expect(cells(rows()[0]).at(-1)).toBe("100 %");
  });

  it.each([null, 7, {}, { layers: "x" }])("draws nothing of %j", (value) => {
    open(activations, value);
    expect(rows()).toEqual([]);
  });
});

describe("gradients", () => {
  const data = {
    says: "",
    band: [1e-4, 1e-2],
    parameters: [
      parameter("w"),
      parameter("b", { matrix: false, update: 0.5 }),
      parameter(HOSTILE, { gradient: null }),
      parameter("big", { update: 0.4, gradient: "Infinity" }),
    ],
  };

  it("marks silent gradients, ill steps of matrices and what is not finite, but not a bias that moves far", () => {
    open(gradients, data);
    expect(rows().map((row) => row.dataset.mark)).toEqual([undefined, undefined, "suspect", "bug"]);
    expect(el.querySelectorAll(".nbd-shade")).toHaveLength(4);
  });

  it("can leave biases out, and shows the histograms of one parameter", () => {
    open(gradients, data);
    const box = el.querySelector("input") as HTMLInputElement;
    box.checked = true;
    box.dispatchEvent(new Event("change"));
    expect(rows()).toHaveLength(3);
    rows()[0]?.querySelector("button")?.click();
    expect(el.querySelectorAll(".nbd-detail svg")).toHaveLength(2);
    expect(el.querySelector("img")).toBeNull();
  });

  it("sorts by a column, and back to the order of the model", () => {
    open(gradients, data);
    const names = () => rows().map((row) => row.querySelector("button")?.textContent?.split(" ")[0]);
    const sort = () => [...el.querySelectorAll<HTMLElement>("th button")].at(-1)?.click();
    sort();
    expect(names().slice(0, 2)).toEqual(["b", "big"]);
    sort();
    sort();
    expect(names()[0]).toBe("w");
  });
});

describe("layers", () => {
  it("says what was found and what was not called", () => {
    const ill = module("a", { severity: "bug", findings: [HOSTILE] });
    open(layers, { says: "", layers: [ill, module("b", { calls: 0 })] });
    expect(rows()[0]?.dataset.mark).toBe("bug");
    expect(rows()[1]?.textContent).toContain("not called");
    rows()[0]?.querySelector("button")?.click();
    expect(el.querySelector(".nbd-detail")?.textContent).toContain(HOSTILE);
    expect(el.querySelector("img")).toBeNull();
  });
});

describe("the way through a model", () => {
  const way = [
    module("model", { depth: 0, leaf: false, order: -1 }),
    module("a", { order: 0, sources: [] }),
    module("b", { leaf: false, order: -1 }),
    module("b.conv", { name: "conv", depth: 2, order: 1, sources: ["a"] }),
    module("b.act", {
      name: "act",
      depth: 2,
      order: 2,
      sources: ["b.conv"],
      severity: "bug",
      findings: [HOSTILE],
    }),
    module("c", { order: 3, sources: ["a", "b.act"] }),
    module("never", { calls: 0, order: -1 }),
  ];
  const nodes = () => [...el.querySelectorAll<HTMLElement>(".nbd-node")];
  const toGraph = () => {
    open(layers, { says: "", layers: way });
    [...el.querySelectorAll<HTMLElement>(".nbd-bar button")].at(-1)?.click();
  };

  it("has a node for each innermost call, under what holds it, and an arc for what skips", () => {
    toGraph();
    expect(nodes().map((node) => node.querySelector("b")?.textContent)).toEqual(["a", "conv", "act", "c"]);
    expect([...el.querySelectorAll("[data-joined]")].map((part) => part.textContent?.slice(0, 8))).toEqual([
      "b Linear", // before the name of what holds the next module
      "actLinea",
      "cLinear4",
    ]);
    expect(el.querySelectorAll(".nbd-arcs g")).toHaveLength(1);
    expect(el.querySelector(".nbd-holder")?.textContent).toBe("b Linear");
    expect(nodes()[3]?.getAttribute("aria-label")).toContain("input from a and b.act");
  });

  it("opens a module by a click, moves by arrows, and closes it by Escape", () => {
    toGraph();
    nodes()[2]?.click();
    const detail = el.querySelector(".nbd-detail");
    expect(detail?.textContent).toContain(HOSTILE);
    expect(el.querySelector("img")).toBeNull();
    expect(nodes()[2]?.getAttribute("aria-pressed")).toBe("true");
    nodes()[2]?.focus();
    press(nodes()[2], "ArrowDown");
    expect(document.activeElement).toBe(nodes()[3]);
    press(nodes()[3], "Escape");
    expect(detail?.childElementCount).toBe(0);
    expect(nodes()[2]?.getAttribute("aria-pressed")).toBe("false");
  });

  it("draws arcs that cross in lanes of their own", () => {
    const rows = ["a", "b", "c", "d", "e"].map((name, i) =>
      module(name, { order: i, sources: i === 3 ? ["a"] : i === 4 ? ["b", "d"] : [] }),
    );
    expect(arcsOf(rows)).toEqual([
      { from: 0, to: 3, lane: 0 },
      { from: 1, to: 4, lane: 1 },
    ]);
  });
});

describe("curves", () => {
  const steps = [...Array(40).keys()];
  const data = {
    title: HOSTILE,
    steps: 40,
    running: true,
    curves: [
      { name: "loss", steps, values: steps.map((step) => 5 - step / 10) },
      { name: "val_loss", steps: [10, 20], values: [4, 3] },
      { name: "accuracy", steps, values: steps.map((step) => step / 40) },
    ],
    rates: [{ name: "0", steps, values: steps.map(() => 1e-3) }],
    findings: [{ check: "exploding", severity: "bug", says: HOSTILE, where: "a", step: 12 }],
    notes: [],
  };
  const path = () => el.querySelector(".nbd-plot g:nth-of-type(3) path")?.getAttribute("d") ?? "";

  it("draws losses together, and the learning rate under them", () => {
    open(curve, data);
    expect(el.querySelectorAll(".nbd-plot")).toHaveLength(2);
    expect(el.querySelectorAll(".nbd-legend button")).toHaveLength(2);
    expect(el.textContent).toContain("recording");
    expect(el.textContent).toContain("step 12: exploding at a");
    expect(el.querySelector("img")).toBeNull();
  });

  it("says the newest value as it is, and marks where values are not finite", () => {
    open(curve, {
      ...data,
      curves: [{ name: "loss", steps: [0, 1, 2], values: [3, 2, "NaN"], last: "NaN" }],
      findings: [{ check: "non-finite-loss", severity: "bug", says: "NaN.", where: "", step: 2 }],
      rates: [],
    });
    expect(el.querySelector(".nbd-legend")?.textContent).toBe("loss NaN");
    expect(el.querySelectorAll(".nbd-gaps path")).toHaveLength(1);
    expect(el.querySelector(".nbd-gaps")?.textContent).toContain("× not finite");
    // The newest step is the edge of the plot, and a mark there is seen as well.
    expect(el.querySelectorAll(".nbd-plot g:nth-of-type(4) path")).toHaveLength(2);
  });

  it("claims no step for a finding that nobody saw appear", () => {
    open(curve, { ...data, findings: [{ ...data.findings[0], step: null }] });
    expect(el.querySelector(".nbd-said")?.textContent).toBe(`exploding at a. ${HOSTILE}`);
    expect(el.querySelectorAll(".nbd-plot g:nth-of-type(4) path")).toHaveLength(0);
  });

  it("has words and no empty plot before the first step", () => {
    const empty = {
      steps: 0,
      curves: [],
      rates: [],
      findings: [],
      notes: ["nothing recorded yet"],
      empty: true,
    };
    open(curve, { ...empty, title: "model", running: true });
    expect(el.textContent).toContain("nothing recorded yet");
    expect((el.querySelector(".nbd-plots") as HTMLElement).hidden).toBe(true);
    expect((el.querySelector(".nbd-bar") as HTMLElement).hidden).toBe(true);
    model.receive("data", data);
    expect((el.querySelector(".nbd-plots") as HTMLElement).hidden).toBe(false);
  });

  it("grows in place: the same elements, other places", () => {
    open(curve, data);
    const before = el.querySelector(".nbd-plot g:nth-of-type(3) path");
    const d = path();
    model.receive("data", { ...data, steps: 41 });
    expect(path()).toBe(d);
    model.receive("data", {
      ...data,
      curves: [{ name: "loss", steps: [0, 1], values: [9, 1] }, data.curves[1]],
    });
    expect(el.querySelector(".nbd-plot g:nth-of-type(3) path")).toBe(before);
    expect(path()).not.toBe(d);
  });

  it("smooths, zooms, hides and changes its scale", () => {
    open(curve, data);
    const seen = [path()];
    const note = () => seen.push(path());
    const log = el.querySelector("input[type=checkbox]") as HTMLInputElement;
    log.checked = true;
    log.dispatchEvent(new Event("change"));
    note();
    const smooth = el.querySelector("input[type=range]") as HTMLInputElement;
    smooth.value = "0.9";
    smooth.dispatchEvent(new Event("input"));
    note();
    press(el.querySelector(".nbd-plots"), "+");
    note();
    press(el.querySelector(".nbd-plots"), "ArrowRight");
    note();
    (el.querySelector(".nbd-legend button") as HTMLElement).click();
    note();
    expect(new Set(seen).size).toBe(seen.length);
    expect(path()).toBe("");
  });

  it("cleans up after itself", () => {
    open(curve, data);
    unmount();
    expect(el.childElementCount).toBe(0);
    expect(model.listenerCount).toBe(0);
  });
});
