// The samples of a batch: what the kernel sends, and in which order and selection they are shown.

import { asList, asObject } from "./frame";
import type { Wave } from "./sparks";

export interface Sample {
  index: number | null;
  target: string;
  predicted: string;
  confidence: number | null;
  loss: number | null;
  right: boolean | null;
}

export interface Tokens {
  words: string[];
  padding: number[];
  more: number;
}

export type Row = (number | null)[];
export type Item = string | Row | Tokens | Wave;

export interface Part {
  name: string;
  role: "input" | "target" | "prediction";
  kind: "image" | "mask" | "table" | "tokens" | "series" | "value";
  shape: string;
  dtype: string;
  says: string[];
  items: Item[];
  columns?: string[];
  histograms?: { counts: number[]; low: number | null; high: number | null }[];
}

export interface Batch {
  number: number;
  of: number | null;
  size: number;
  draws: number;
  model: string;
  canRedraw: boolean;
  hasPrevious: boolean;
  notes: string[];
  classes: [string, number][];
  parts: Part[];
  samples: Sample[];
}

export const ORDERS = {
  drawn: "loader order",
  loss: "highest loss first",
  low: "lowest loss first",
  doubt: "least confident first",
  class: "by class",
} as const;
export type Order = keyof typeof ORDERS;

/** Reads what the kernel sent; what is missing is empty, never an error. */
export function toBatch(value: unknown): Batch {
  const given = asObject(value);
  return {
    number: Number(given.number ?? 0),
    of: typeof given.of === "number" ? given.of : null,
    size: Number(given.size ?? 0),
    draws: Number(given.draws ?? 1),
    model: String(given.model ?? ""),
    canRedraw: given.canRedraw === true,
    hasPrevious: given.hasPrevious === true,
    notes: asList<unknown>(given.notes).map(String),
    classes: asList<[string, number]>(given.classes),
    parts: asList<Part>(given.parts),
    samples: asList<Sample>(given.samples).map(withLoss),
  };
}

/** A loss that JSON cannot hold comes by its name. */
function withLoss(sample: Sample): Sample {
  return typeof sample.loss === "string" ? { ...sample, loss: Number(sample.loss) } : sample;
}

/** The places of the samples to show, in order. A loss that is not a number comes first: it is the worst. */
export function arranged(samples: readonly Sample[], order: Order, wrongOnly: boolean): number[] {
  const places = samples.map((_, i) => i).filter((i) => !wrongOnly || samples[i]?.right === false);
  const by = (key: (sample: Sample) => number | string): number[] =>
    places
      .map((i): [number, number | string] => [i, key(samples[i] as Sample)])
      .sort((a, b) => (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : a[0] - b[0]))
      .map(([i]) => i);
  switch (order) {
    case "loss":
      return by((sample) => -worst(sample.loss));
    case "low":
      return by((sample) => worst(sample.loss));
    case "doubt":
      return by((sample) => sample.confidence ?? -1);
    case "class":
      return by((sample) => sample.target);
    default:
      return places;
  }
}

function worst(loss: number | null): number {
  return loss === null || Number.isNaN(loss) ? Number.POSITIVE_INFINITY : loss;
}

/** Which orders make sense for these samples. */
export function orders(samples: readonly Sample[]): Order[] {
  const has = (key: keyof Sample): boolean =>
    samples.some((sample) => sample[key] !== null && sample[key] !== "");
  return [
    "drawn",
    ...(has("loss") ? (["loss", "low"] as const) : []),
    ...(has("confidence") ? (["doubt"] as const) : []),
    ...(has("target") ? (["class"] as const) : []),
  ];
}

/** The places of rows by the values of a column; what is no number comes last either way. */
export function byColumn(
  rows: readonly Row[],
  places: readonly number[],
  column: number,
  down: boolean,
): number[] {
  const value = (place: number): number => {
    const found = rows[place]?.[column] ?? null;
    return found === null ? Number.POSITIVE_INFINITY : down ? -found : found;
  };
  return [...places].sort((a, b) => value(a) - value(b) || a - b);
}
