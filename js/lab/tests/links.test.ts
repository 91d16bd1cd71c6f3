import { describe, expect, it } from "vitest";
import { locate, toFinding } from "../src/links";

const CELLS = [
  { count: 3, text: "model = Net()\nloader = make()" },
  { count: 7, text: "class Net:\n    self.last = Softmax()\n    print(model == 3)" },
];
const FINDING = toFinding({ cell: 7, line: 2, text: "self.last = Softmax()", name: "model" });

describe("the line of a finding", () => {
  it("is where the kernel says, as long as it is still there", () => {
    expect(locate(CELLS, FINDING)).toEqual({ cell: 1, line: 1 });
  });

  it("is found by its text when the cell was run again or edited", () => {
    const moved = [{ count: 9, text: "# new\nclass Net:\n    self.last = Softmax()" }];
    expect(locate(moved, FINDING)).toEqual({ cell: 0, line: 2 });
    expect(locate([{ count: 7, text: "# new\nclass Net:\n    self.last = Softmax()" }], FINDING)?.line).toBe(
      2,
    );
  });

  it("is the assignment of the variable where nothing made the place, and not a comparison", () => {
    expect(locate(CELLS, toFinding({ name: "loader" }))).toEqual({ cell: 0, line: 1 });
    expect(locate(CELLS, toFinding({ name: "model" }))).toEqual({ cell: 0, line: 0 });
  });

  it("is nowhere when the name is none, or the file is another", () => {
    expect(locate(CELLS, toFinding({ name: "a.b[" }))).toBeNull();
    expect(locate(CELLS, toFinding({ file: "net.py", line: 2, text: "self.last = Softmax()" }))).toBeNull();
  });
});
