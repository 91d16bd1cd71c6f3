import { describe, expect, it } from "vitest";
import { arranged, byColumn, orders, type Sample, toBatch } from "../src/samples";

const sample = (loss: number | null, right: boolean | null = null, more: Partial<Sample> = {}): Sample => ({
  index: 0,
  target: "",
  predicted: "",
  confidence: null,
  loss,
  right,
  ...more,
});

describe("arranged", () => {
  const samples = [sample(0.5, true), sample(2, false), sample(Number.NaN, false), sample(0.1, true)];

  it("puts the highest loss first, and one that is no number before it", () => {
    expect(arranged(samples, "loss", false)).toEqual([2, 1, 0, 3]);
    expect(arranged(samples, "low", false)).toEqual([3, 0, 1, 2]);
  });

  it("keeps only the wrong ones, in any order", () => {
    expect(arranged(samples, "drawn", true)).toEqual([1, 2]);
    expect(arranged(samples, "low", true)).toEqual([1, 2]);
  });

  it("sorts by class and by doubt, equal ones as drawn", () => {
    const some = [sample(1, null, { target: "b" }), sample(1, null, { target: "a", confidence: 0.9 })];
    expect(arranged([...some, sample(1, null, { target: "a" })], "class", false)).toEqual([1, 2, 0]);
    expect(arranged(some, "doubt", false)).toEqual([0, 1]);
  });
});

describe("orders", () => {
  it("offers only what the samples have", () => {
    expect(orders([sample(null)])).toEqual(["drawn"]);
    expect(orders([sample(1, true, { confidence: 0.5, target: "a" })])).toEqual([
      "drawn",
      "loss",
      "low",
      "doubt",
      "class",
    ]);
  });
});

describe("byColumn", () => {
  const rows = [[3], [null], [1], [2]];
  it("sorts either way and leaves what is no number at the end", () => {
    expect(byColumn(rows, [0, 1, 2, 3], 0, true)).toEqual([0, 3, 2, 1]);
    expect(byColumn(rows, [0, 1, 2, 3], 0, false)).toEqual([2, 3, 0, 1]);
  });
});

describe("toBatch", () => {
  it.each([undefined, null, 7, "x", []])("takes %j as an empty batch", (value) => {
    expect(toBatch(value)).toMatchObject({ samples: [], parts: [], of: null });
  });

  it("reads a loss that comes by its name", () => {
    expect(toBatch({ samples: [{ ...sample(null), loss: "NaN" }] }).samples[0]?.loss).toBeNaN();
  });
});
