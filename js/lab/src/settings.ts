// The settings of the extension, as the settings editor keeps them, and what they mean to the kernel.

import { asObject } from "../../src/frame";

export interface Settings {
  thresholds: Record<string, unknown>;
  timeLimit: number | null;
  includeSamples: boolean;
  reportPath: string;
  offerExplanations: boolean;
}

export const DEFAULTS: Settings = {
  thresholds: {},
  timeLimit: null,
  includeSamples: false,
  reportPath: "report.html",
  offerExplanations: true,
};

/** Takes the checks for which numbers are given; a row of the editor that is not filled in yet says nothing. */
function toThresholds(given: unknown): Record<string, unknown> {
  const filled = Object.entries(asObject(given)).filter(
    ([, numbers]) => Object.keys(asObject(numbers)).length > 0,
  );
  return Object.fromEntries(filled);
}

/** Reads settings of any origin; what is not of its kind is taken for its default. */
export function toSettings(given: unknown): Settings {
  const raw = asObject(given);
  const { timeLimit, reportPath } = raw;
  return {
    thresholds: toThresholds(raw.thresholds),
    timeLimit: typeof timeLimit === "number" && timeLimit > 0 ? timeLimit : null,
    includeSamples: raw.includeSamples === true,
    reportPath: typeof reportPath === "string" && reportPath !== "" ? reportPath : DEFAULTS.reportPath,
    offerExplanations: raw.offerExplanations !== false,
  };
}

/** Gives the options of a wizard that differ from its own defaults. */
export function wizardOptions(settings: Settings): Record<string, unknown> {
  const { thresholds, timeLimit, includeSamples } = settings;
  return {
    ...(Object.keys(thresholds).length > 0 ? { thresholds } : {}),
    ...(timeLimit !== null ? { time_limit: timeLimit } : {}),
    ...(includeSamples ? { include_samples: true } : {}),
  };
}
