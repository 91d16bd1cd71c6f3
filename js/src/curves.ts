// Curves over steps: smoothing, ranges and ticks, apart from how they are drawn.

import { num } from "./numbers";

export interface Curve {
  name: string;
  steps: number[];
  values: (number | null)[];
  low: (number | null)[] | null;
  high: (number | null)[] | null;
  last: number | null; // the newest value as it is, which may be NaN or infinite
}

export function toCurve(value: unknown): Curve {
  const given = (value ?? {}) as Record<string, unknown>;
  const list = (part: unknown): (number | null)[] =>
    (Array.isArray(part) ? part : []).map((each) => {
      const found = num(each);
      return found !== null && Number.isFinite(found) ? found : null;
    });
  const values = list(given.values);
  return {
    name: String(given.name ?? ""),
    steps: (Array.isArray(given.steps) ? given.steps : []).map(Number),
    values,
    low: Array.isArray(given.low) ? list(given.low) : null,
    high: Array.isArray(given.high) ? list(given.high) : null,
    last: given.last === undefined ? (values[values.length - 1] ?? null) : num(given.last),
  };
}

/** An exponential mean without a start at 0; gaps stay gaps. */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let [mean, sum] = [0, 0];
  return values.map((value) => {
    if (value === null) return null;
    mean = weight * mean + (1 - weight) * value;
    sum = weight * sum + (1 - weight);
    return mean / sum;
  });
}

/** The places where a curve has no finite value, at least some way apart, so that a long stretch is a row of marks. */
export function gaps(curve: Curve, steps: Range, x: (step: number) => number, apart = 9): number[] {
  const places: number[] = [];
  curve.steps.forEach((step, i) => {
    if ((curve.values[i] ?? null) !== null || step < steps.low || step > steps.high) return;
    const last = places[places.length - 1];
    if (last === undefined || x(step) - last >= apart) places.push(x(step));
  });
  return places;
}

export interface Range {
  low: number;
  high: number;
}

/** The part of a curve within some steps, with the points at which it enters and leaves: a line may pass through alone. */
export function within(curve: Curve, { low, high }: Range): Curve {
  const places: [before: number, after: number, part: number][] = [];
  curve.steps.forEach((step, i) => {
    if (step >= low && step <= high) places.push([i, i, 0]);
    const next = curve.steps[i + 1];
    if (next === undefined || (curve.values[i] ?? null) === null || (curve.values[i + 1] ?? null) === null)
      return;
    for (const edge of [low, high]) {
      if (step < edge && edge < next) places.push([i, i + 1, (edge - step) / (next - step)]);
    }
  });
  const at = (values: readonly (number | null)[]): (number | null)[] =>
    places.map(([before, after, part]) => {
      const [a, b] = [values[before] ?? null, values[after] ?? null];
      return a === null || b === null ? null : a + part * (b - a);
    });
  return {
    ...curve,
    steps: at(curve.steps) as number[],
    values: at(curve.values),
    low: curve.low && at(curve.low),
    high: curve.high && at(curve.high),
  };
}

/** The range of all values within some steps, with a little room; on a logarithmic axis only what is positive. */
export function spanOf(curves: readonly Curve[], steps: Range, log: boolean): Range {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const curve of curves) {
    curve.values.forEach((value, i) => {
      const step = curve.steps[i] ?? Number.NaN;
      if (value === null || step < steps.low || step > steps.high || (log && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    });
  }
  if (low > high) return { low: log ? 0.1 : 0, high: 1 };
  if (log) return { low: low / 1.15, high: high * 1.15 };
  const room = 0.05 * (high - low) || Math.abs(high) * 0.1 || 1;
  return { low: low - room, high: high + room };
}

/** A few round numbers within a range. */
export function ticks({ low, high }: Range, count: number, log: boolean): number[] {
  if (log) {
    const marks: number[] = [];
    const decades = Math.log10(high) - Math.log10(low);
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const digit of decades > 3 ? [1] : decades > 1 ? [1, 3] : [1, 2, 3, 5])
        marks.push(digit * 10 ** power);
    }
    return marks.filter((mark) => mark >= low && mark <= high);
  }
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((digit) => digit * power >= rough) ?? 10);
  const marks: number[] = [];
  for (let mark = Math.ceil(low / step) * step; mark <= high + 1e-9 * step; mark += step) {
    marks.push(Number(mark.toPrecision(10)));
  }
  return marks;
}

/** Zooms a range about a place within it (0 to 1), within bounds. */
export function zoomed(range: Range, factor: number, at: number, bounds: Range): Range {
  const width = Math.max(2, Math.min(bounds.high - bounds.low, (range.high - range.low) * factor));
  const middle = range.low + at * (range.high - range.low);
  const low = Math.max(bounds.low, Math.min(bounds.high - width, middle - at * width));
  return { low, high: low + width };
}

/** Curves with "loss" in their names are shown together, and every other one by itself. */
export function groupsOf(curves: readonly Curve[]): string[] {
  const losses = curves.some(isLoss);
  return [
    ...(losses ? ["loss"] : []),
    ...curves.filter((curve) => !isLoss(curve)).map((curve) => curve.name),
  ];
}

export function inGroup(curves: readonly Curve[], group: string): Curve[] {
  return curves.filter((curve) => (group === "loss" && isLoss(curve)) || curve.name === group);
}

function isLoss(curve: Curve): boolean {
  return curve.name.toLowerCase().includes("loss");
}
