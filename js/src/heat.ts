// Counts as a strip of color, and histograms large enough to read.

import { h, s, short } from "./dom";

// Viridis at ten places; brighter is more.
const COLORS = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 73, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [110, 206, 88],
  [181, 222, 43],
  [253, 231, 37],
] as const;

export function colorOf(share: number): [number, number, number] {
  const at = Math.min(1, Math.max(0, share)) * (COLORS.length - 1);
  const [a, b] = [COLORS[Math.floor(at)] ?? COLORS[0], COLORS[Math.ceil(at)] ?? COLORS[9]];
  const part = at - Math.floor(at);
  return [0, 1, 2].map((i) => Math.round((a[i] ?? 0) * (1 - part) + (b[i] ?? 0) * part)) as [
    number,
    number,
    number,
  ];
}

/** One row of the picture of all layers: a pixel a bin, stretched by the page. Small counts are lifted to be seen. */
export function strip(counts: ArrayLike<number>): HTMLCanvasElement {
  const canvas = h("canvas", {
    class: "nbd-strip",
    width: counts.length || 1,
    height: 1,
    "aria-hidden": "true",
  });
  paint(canvas, counts);
  return canvas;
}

export function paint(canvas: HTMLCanvasElement, counts: ArrayLike<number>): void {
  const context = canvas.getContext?.("2d");
  if (!context) return; // nothing to draw on, as in a test without a browser
  const top = Math.max(1e-12, ...Array.from(counts));
  const image = context.createImageData(counts.length || 1, 1);
  for (let i = 0; i < counts.length; i++) {
    const [red, green, blue] = colorOf(Math.sqrt((counts[i] ?? 0) / top));
    image.data.set([red, green, blue, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

export interface Bins {
  low: unknown;
  high: unknown;
  counts: number[];
}

const WIDTH = 420;
const HEIGHT = 130;

/** One or two histograms over a common axis; the second one is drawn as an outline. */
export function histograms(parts: { name: string; bins: Bins }[], label: string): SVGSVGElement {
  const low = Math.min(...parts.map(({ bins }) => Number(bins.low)));
  const high = Math.max(...parts.map(({ bins }) => Number(bins.high)));
  const span = high - low || 1;
  const x = (value: number): number => ((value - low) / span) * WIDTH;
  const nodes: Element[] = [];
  parts.forEach(({ name, bins }, place) => {
    const top = Math.max(1, ...bins.counts);
    const step = (Number(bins.high) - Number(bins.low)) / bins.counts.length;
    const points = bins.counts.map((count, i) => {
      const left = x(Number(bins.low) + i * step);
      const right = Math.max(left + 1, x(Number(bins.low) + (i + 1) * step));
      const y = HEIGHT - (count / top) * (HEIGHT - 16);
      return `L${left.toFixed(1)} ${y.toFixed(1)}H${right.toFixed(1)}`;
    });
    const start = x(Number(bins.low)).toFixed(1);
    const end = Math.max(x(Number(bins.high)), x(Number(bins.low)) + 1).toFixed(1);
    const d = `M${start} ${HEIGHT}${points.join("")}L${end} ${HEIGHT}Z`;
    const ink = place === 0 ? "var(--nbd-blue)" : "var(--nbd-orange)";
    nodes.push(
      s(
        "path",
        place === 0
          ? { d, fill: ink, "fill-opacity": 0.75 }
          : { d, fill: "none", stroke: ink, "stroke-width": 1.5 },
      ),
    );
    nodes.push(s("rect", { x: 4 + 150 * place, y: 0, width: 10, height: 10, fill: ink }));
    nodes.push(s("text", { x: 18 + 150 * place, y: 10 }, name));
  });
  nodes.push(s("path", { d: `M0 ${HEIGHT}H${WIDTH}`, stroke: "var(--nbd-edge)" }));
  for (const part of [0, 0.5, 1]) {
    const anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
    nodes.push(
      s("text", { x: part * WIDTH, y: HEIGHT + 15, "text-anchor": anchor }, short(low + part * span)),
    );
  }
  if (low < 0 && high > 0)
    nodes.push(
      s("path", { d: `M${x(0)} 14V${HEIGHT}`, stroke: "var(--nbd-edge)", "stroke-dasharray": "3 3" }),
    );
  return s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT + 20}`, width: WIDTH, role: "img", "aria-label": label },
    ...nodes,
  );
}
