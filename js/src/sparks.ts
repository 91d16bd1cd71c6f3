// Small drawings in SVG that several views share: tiny histograms, curves of one sample, bars of counts.

import { s } from "./dom";

/** A tiny histogram; the title says its ends to those who point at it or hear it. */
export function histogram(
  counts: readonly number[],
  width: number,
  height: number,
  label: string,
): SVGSVGElement {
  const top = Math.max(1, ...counts);
  const step = width / Math.max(1, counts.length);
  const bars = counts.map((count, i) => {
    const tall = count > 0 ? Math.max(1, (count / top) * height) : 0;
    return s("rect", {
      x: (i * step).toFixed(1),
      y: (height - tall).toFixed(1),
      width: Math.max(0.8, step - 0.6).toFixed(1),
      height: tall.toFixed(1),
      fill: "var(--nbd-blue)",
    });
  });
  const base = s("path", { d: `M0 ${height}H${width}`, stroke: "var(--nbd-edge)" });
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    ...bars,
    base,
  );
}

export interface Wave {
  low: (number | null)[][];
  high?: (number | null)[][];
  steps: number;
}

const INKS = ["var(--nbd-blue)", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/** One sample over time: lines, or the filled range of each stretch where there are more steps than points. */
export function wave(
  data: Wave,
  width: number,
  height: number,
  label: string,
  [low, high]: [number, number] = rangeOf([data]),
): SVGSVGElement {
  const span = high - low || 1;
  const y = (v: number): string => (2 + (height - 4) * (1 - (v - low) / span)).toFixed(1);
  const paths = data.low.map((lows, channel) => {
    const x = (i: number): string => ((i * width) / Math.max(1, lows.length - 1)).toFixed(1);
    const ink = INKS[channel % INKS.length] ?? "currentColor";
    const highs = data.high?.[channel];
    if (highs === undefined) return s("path", { d: through(lows, x, y), fill: "none", stroke: ink });
    const bars = lows.map((v, i) => {
      const top = highs[i];
      return v === null || top === null || top === undefined ? "" : `M${x(i)} ${y(v)}V${y(top)}`;
    });
    return s("path", { d: bars.join(""), fill: "none", stroke: ink, "stroke-width": 1.2 });
  });
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": label,
      preserveAspectRatio: "none",
    },
    ...paths,
  );
}

/** The lowest and the highest value of some curves. */
export function rangeOf(waves: readonly Wave[]): [number, number] {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const each of waves) {
    for (const row of [...each.low, ...(each.high ?? [])]) {
      for (const value of row) {
        if (value === null) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
  }
  return low <= high ? [low, high] : [0, 1];
}

/** A path through points; a missing one interrupts it. */
export function through(
  values: readonly (number | null)[],
  x: (i: number) => string,
  y: (v: number) => string,
): string {
  let d = "";
  let pen = false;
  values.forEach((v, i) => {
    if (v !== null) d += `${pen ? "L" : "M"}${x(i)} ${y(v)}`;
    pen = v !== null;
  });
  return d;
}
