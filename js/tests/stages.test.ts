import { describe, expect, it } from "vitest";
import { destination, ICONS, STATES, describe as say, tabStop, toRows } from "../src/stages";

const TREE = [
  {
    id: "data",
    title: "The data",
    state: "found",
    steps: [
      { id: "nan-inputs", title: "NaN in the inputs", state: "found", count: 2 },
      { id: "shuffled-labels", title: "Shuffled labels", state: "clean", count: 0 },
    ],
  },
  { id: "model", title: "The model", state: "not-run", steps: [] },
];

describe("toRows", () => {
  it("flattens the tree in reading order", () => {
    const rows = toRows(TREE);
    expect(rows.map((row) => row.id)).toEqual(["data", "nan-inputs", "shuffled-labels", "model"]);
    expect(rows.map((row) => row.parent)).toEqual([null, rows[0]?.key, rows[0]?.key, null]);
  });

  it.each([undefined, null, 7, "stages", {}, [null, 3, "x", []]])("takes %j as an empty tree", (value) => {
    expect(toRows(value)).toEqual([]);
  });

  it("never lets a malformed row look clean", () => {
    const [row] = toRows([{ id: "a", state: "toString", count: Number.NaN }]);
    expect(row).toMatchObject({ title: "a", state: "not-run", count: 0 });
  });

  it("keeps rows with the same id apart", () => {
    const steps = [{ id: "a" }, { id: "a" }];
    const keys = toRows([
      { id: "a", steps },
      { id: "b", steps },
    ]).map((row) => row.key);
    expect(new Set(keys).size).toBe(6);
  });

  it("gives a row the same key when others come and go", () => {
    const keyOf = (tree: unknown) => toRows(tree).find((row) => row.id === "model")?.key;
    expect(keyOf(TREE)).toBe(keyOf(TREE.slice(1)));
  });
});

describe("the words and icons of states", () => {
  it("differ from state to state", () => {
    expect(new Set(STATES.map((state) => ICONS[state])).size).toBe(STATES.length);
    expect(new Set(STATES.map((state) => say(state, 0))).size).toBe(STATES.length);
  });

  it("count findings only where something was found", () => {
    expect(say("found", 3)).toBe("3 found");
    expect(say("found", 0)).toBe("found");
    expect(say("clean", 3)).toBe("clean");
  });
});

describe("destination", () => {
  const rows = toRows(TREE);
  const go = (from: string, press: string) => {
    const key = rows.find((row) => row.id === from)?.key ?? "";
    return rows.find((row) => row.key === destination(rows, key, press))?.id ?? null;
  };

  it.each([
    ["data", "ArrowDown", "nan-inputs"],
    ["shuffled-labels", "ArrowDown", "model"],
    ["model", "ArrowDown", null],
    ["model", "ArrowUp", "shuffled-labels"],
    ["data", "ArrowUp", null],
    ["data", "ArrowRight", "nan-inputs"],
    ["nan-inputs", "ArrowRight", null],
    ["model", "ArrowRight", null],
    ["shuffled-labels", "ArrowLeft", "data"],
    ["data", "ArrowLeft", null],
    ["nan-inputs", "End", "model"],
    ["model", "Home", "data"],
    ["data", "x", null],
    ["gone", "ArrowDown", null],
  ])("from %s, %s leads to %s", (from, press, to) => {
    expect(go(from, press)).toBe(to);
  });
});

describe("tabStop", () => {
  const rows = toRows(TREE);
  const keyOf = (id: string) => rows.find((row) => row.id === id)?.key ?? null;

  it("prefers the focused row, then the selected one, then the first", () => {
    expect(tabStop(rows, keyOf("model"), "nan-inputs")).toBe(keyOf("model"));
    expect(tabStop(rows, "gone", "nan-inputs")).toBe(keyOf("nan-inputs"));
    expect(tabStop(rows, null, "")).toBe(keyOf("data"));
    expect(tabStop([], null, "")).toBeNull();
  });
});
