import { describe, expect, it } from "vitest";
import { gaps, smoothed, spanOf, ticks, toCurve, within, zoomed } from "../src/curves";

describe("toCurve", () => {
  it("reads names of numbers as gaps, and rubbish as an empty curve", () => {
    expect(toCurve({ name: "loss", steps: [0, 1], values: [1, "NaN"] }).values).toEqual([1, null]);
    expect(toCurve(null)).toEqual({ name: "", steps: [], values: [], low: null, high: null, last: null });
  });

  it("keeps the newest value as it is, whatever the curve leaves out", () => {
    expect(toCurve({ steps: [0, 1], values: [1, "NaN"], last: "NaN" }).last).toBeNaN();
    expect(toCurve({ steps: [0, 1], values: [1, 2], last: "Infinity" }).last).toBe(Number.POSITIVE_INFINITY);
    expect(toCurve({ steps: [0, 1], values: [1, 2] }).last).toBe(2);
  });
});

describe("gaps", () => {
  const curve = toCurve({ steps: [0, 1, 2, 3, 4], values: [1, "NaN", "NaN", "Infinity", 2] });
  it("are marked within the steps that are shown, not closer than asked", () => {
    expect(gaps(curve, { low: 0, high: 4 }, (step) => 5 * step, 9)).toEqual([5, 15]);
    expect(gaps(curve, { low: 2, high: 2 }, (step) => 5 * step, 9)).toEqual([10]);
  });
});

describe("within", () => {
  it("adds the points at which a curve enters and leaves", () => {
    const cut = within(toCurve({ steps: [0, 10, 20], values: [0, 1, 0], low: [0, 1, 0], high: [2, 3, 2] }), {
      low: 5,
      high: 15,
    });
    expect(cut.steps).toEqual([5, 10, 15]);
    expect(cut.values).toEqual([0.5, 1, 0.5]);
    expect(cut.high).toEqual([2.5, 3, 2.5]);
  });

  it("keeps a line that only passes through, such as a learning rate that never changes", () => {
    const cut = within(toCurve({ steps: [0, 100], values: [0.01, 0.01] }), { low: 40, high: 60 });
    expect([cut.steps, cut.values]).toEqual([
      [40, 60],
      [0.01, 0.01],
    ]);
  });

  it("makes up nothing beside a gap, and leaves whole what lies inside", () => {
    const broken = toCurve({ steps: [0, 10, 20], values: [1, "NaN", 3] });
    expect(within(broken, { low: 5, high: 20 }).steps).toEqual([10, 20]);
    expect(within(broken, { low: 0, high: 20 }).values).toEqual([1, null, 3]);
  });
});

describe("smoothed", () => {
  it("leaves values as they are without weight, and begins at the first value with it", () => {
    expect(smoothed([1, 5, null, 3], 0)).toEqual([1, 5, null, 3]);
    const some = smoothed([4, 4, 4], 0.9);
    for (const value of some) expect(value).toBeCloseTo(4);
  });

  it("follows slowly", () => {
    const [, second] = smoothed([0, 10], 0.5) as number[];
    expect(second).toBeCloseTo(10 * (0.5 / 0.75));
  });
});

describe("spanOf", () => {
  const curve = toCurve({ steps: [0, 1, 2], values: [-5, 1, 100] });
  it("looks only at the steps that are shown", () => {
    expect(spanOf([curve], { low: 0, high: 1 }, false).high).toBeLessThan(2);
  });
  it("leaves out what a logarithm cannot show", () => {
    const { low, high } = spanOf([curve], { low: 0, high: 2 }, true);
    expect(low).toBeGreaterThan(0.5);
    expect(high).toBeGreaterThan(100);
  });
  it("gives a range where there is nothing", () => {
    expect(spanOf([], { low: 0, high: 1 }, false)).toEqual({ low: 0, high: 1 });
  });
});

describe("ticks", () => {
  it("are round and within the range", () => {
    expect(ticks({ low: 0, high: 1 }, 4, false)).toEqual([0, 0.5, 1]);
    expect(ticks({ low: 0.001, high: 10 }, 4, true)).toEqual([0.001, 0.01, 0.1, 1, 10]);
  });
});

describe("zoomed", () => {
  const all = { low: 0, high: 100 };
  it("keeps the place that it zooms about, and stays within the bounds", () => {
    expect(zoomed(all, 0.5, 0.5, all)).toEqual({ low: 25, high: 75 });
    expect(zoomed({ low: 0, high: 50 }, 2, 0, all)).toEqual(all);
    expect(zoomed({ low: 50, high: 100 }, 4, 0.5, all)).toEqual(all);
  });
});
