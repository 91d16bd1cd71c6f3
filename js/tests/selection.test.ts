// @vitest-environment happy-dom
import { describe, expect, it, vi } from "vitest";
import { Grid } from "../src/grid";
import { placeOf, Selection } from "../src/selection";
import { FakeModel } from "./fake-model";

describe("the row for what is selected elsewhere", () => {
  it.each([
    [["conv", "fc1", "fc10"], "fc1", 1],
    [["conv", "fc1 → relu", "fc1"], "fc1 → relu", 1],
    [["conv.weight", "fc1.weight", "fc1.bias"], "fc1", 1],
    [["conv.weight", "fc1.weight", "fc1.bias"], "fc1 → relu", 1],
    [["model", "encoder", "encoder.0"], "encoder.0.weight", 2],
    [["conv", "fc10"], "fc1", -1],
    [["conv"], "", -1],
  ])("of %j, %s is row %i", (names, selected, place) => {
    expect(placeOf(names, selected)).toBe(place);
  });
});

describe("a choice", () => {
  const make = (traits: Record<string, unknown>) => {
    const model = new FakeModel({ selected: "", marks: {}, ...traits });
    const chosen = vi.fn();
    const grid = new Grid<string>("rows", [{ name: "layer", cell: (row) => row }], String, (place) => {
      chosen(place);
      selection.chosen(place);
    });
    // biome-ignore lint/suspicious/noExplicitAny: the fake has what is used
    const selection: Selection<string> = new Selection(model as any, grid, (row) => row);
    model.on("change:selected", selection.on(() => {}).selected);
    selection.show(["conv", "fc1", "head"]);
    return { model, grid, selection, chosen };
  };

  it("is sent once, and one that comes from the kernel is not sent back", () => {
    const { model, grid, chosen } = make({});
    grid.choose(1);
    expect(model.get("selected")).toBe("fc1");
    expect(model.saved).toHaveBeenCalledTimes(1);
    model.receive("selected", "head");
    expect(chosen).toHaveBeenLastCalledWith(2);
    expect(model.saved).toHaveBeenCalledTimes(1);
    model.receive("selected", "elsewhere");
    expect(chosen).toHaveBeenLastCalledWith(-1);
    expect(model.get("selected")).toBe("elsewhere");
  });

  it("is marked with the gravest that was found at it", () => {
    const { selection } = make({ marks: { fc1: "note", "fc1.weight": "bug" } });
    expect([selection.mark("fc1"), selection.mark("fc1.weight"), selection.mark("fc10")]).toEqual([
      "note",
      "bug",
      "",
    ]);
  });
});
