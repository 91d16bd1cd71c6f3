import { describe, expect, it } from "vitest";
import { callArguments, literal, wizardCell } from "../src/code";

const PICKED = { model: "net", loader: "train", loss_fn: "loss", optimizer: "adam" };

describe("the inserted cell", () => {
  it("passes everything by position", () => {
    expect(wizardCell(PICKED)).toBe("import nbdebug\n\nnbdebug.wizard(net, train, loss, adam)");
  });

  it("names what stands behind a gap", () => {
    expect(callArguments({ ...PICKED, loss_fn: "" })).toBe("net, train, optimizer=adam");
    expect(callArguments({ ...PICKED, optimizer: "", loss_fn: "" })).toBe("net, train");
  });

  it("writes options as Python would", () => {
    expect(callArguments(PICKED, { time_limit: 60, include_samples: true })).toBe(
      "net, train, loss, adam, time_limit=60, include_samples=True",
    );
    expect(literal({ "dead-units": { share: 0.5, on: [null, false, 'a"b'] } })).toBe(
      '{"dead-units": {"share": 0.5, "on": [None, False, "a\\"b"]}}',
    );
  });
});
