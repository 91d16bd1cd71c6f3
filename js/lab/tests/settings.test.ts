import { describe, expect, it } from "vitest";
import schema from "../schema/plugin.json";
import { DEFAULTS, toSettings, wizardOptions } from "../src/settings";

describe("the settings", () => {
  it("have the defaults of their schema", () => {
    const given = Object.entries(schema.properties);
    expect(Object.fromEntries(given.map(([name, { default: value }]) => [name, value]))).toEqual(DEFAULTS);
    expect(toSettings({})).toEqual(DEFAULTS);
  });

  it("add nothing to the wizard's call until they are changed", () => {
    expect(wizardOptions(DEFAULTS)).toEqual({});
    const thresholds = { "dead-units": { share: 0.5 }, newKey: {} };
    const changed = { timeLimit: 30, includeSamples: true, thresholds };
    expect(wizardOptions(toSettings(changed))).toEqual({
      thresholds: { "dead-units": { share: 0.5 } },
      time_limit: 30,
      include_samples: true,
    });
  });

  it("are read with care", () => {
    expect(toSettings({ timeLimit: -1, reportPath: "", includeSamples: "yes", thresholds: [] })).toEqual(
      DEFAULTS,
    );
  });
});
