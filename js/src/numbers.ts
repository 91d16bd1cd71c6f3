// Numbers as they come: what JSON cannot hold is named.

/** Reads a number or its name; null and anything else is none. */
export function num(value: unknown): number | null {
  if (typeof value === "number") return value;
  return value === "NaN" || value === "Infinity" || value === "-Infinity" ? Number(value) : null;
}

/** A logarithmic scale over positive values, widened to whole decades. */
export function decades(values: readonly (number | null)[]): {
  low: number;
  high: number;
  at(v: number): number;
} {
  const logs = values.filter((v): v is number => v !== null && Number.isFinite(v) && v > 0).map(Math.log10);
  const low = logs.length > 0 ? Math.floor(Math.min(...logs)) : 0;
  const high = logs.length > 0 ? Math.max(low + 1, Math.ceil(Math.max(...logs))) : 1;
  return { low, high, at: (v) => (Math.log10(v) - low) / (high - low) };
}

export function bytes(size: number): string {
  for (const [unit, scale] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ] as const) {
    if (size >= scale) return `${(size / scale).toPrecision(3)} ${unit}`;
  }
  return `${size} B`;
}

export function large(count: number): string {
  for (const [unit, scale] of [
    ["T", 1e12],
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ] as const) {
    if (count >= scale) return `${(count / scale).toPrecision(3)} ${unit}`;
  }
  return String(count);
}
