// What a card of the batch viewer holds: the pieces of one sample, and what is known about it in words.

import { h, percent, short } from "./dom";
import { drawItem } from "./items";
import type { Part, Sample } from "./samples";

/** The items of one sample under one another; a mask lies over the picture before it. */
export function stack(
  parts: Part[],
  place: number,
  look: { size: number; label: string; columns: number },
): HTMLElement {
  const nodes: Element[] = [];
  for (const part of parts) {
    const item = drawItem(part, part.items[place], look);
    if (item === null) continue;
    const below = nodes[nodes.length - 1];
    if (part.kind === "mask" && part.role === "target" && below?.matches(".nbd-picture")) below.append(item);
    else if (part.kind === "image" || part.kind === "mask") {
      const alone = part.role === "prediction" ? h("small", { class: "nbd-quiet" }, part.name) : null;
      nodes.push(h("span", { class: "nbd-picture" }, item, alone));
    } else nodes.push(item);
  }
  return h("div", { class: "nbd-stack" }, ...nodes);
}

export function caption(sample: Sample): string {
  const said = [sample.target];
  if (sample.predicted) said.push(`predicted ${sample.predicted} ${percent(sample.confidence)}`);
  if (sample.right !== null) said.push(sample.right ? "right" : "wrong");
  if (sample.loss !== null) said.push(`loss ${short(sample.loss)}`);
  return said.filter((word) => word !== "").join(", ");
}

export function facts(sample: Sample, place: number): HTMLElement {
  const mark = sample.right === null ? "" : sample.right ? " ✓" : " ✗";
  const verdict = sample.right === null ? "" : sample.right ? "nbd-good" : "nbd-bad";
  return h(
    "span",
    { class: "nbd-facts" },
    h(
      "span",
      {},
      h("b", {}, sample.target),
      h("small", { class: "nbd-quiet" }, ` #${sample.index ?? place}`),
    ),
    sample.predicted &&
      h("span", { class: verdict }, `→ ${sample.predicted} ${percent(sample.confidence)}${mark}`),
    sample.loss !== null && h("span", { class: "nbd-quiet" }, `loss ${short(sample.loss)}`),
  );
}

/** How often each class is in the batch; the many rare ones of a long tail are counted together. */
export function classBars(classes: [string, number][]): HTMLElement {
  const top = Math.max(1, ...classes.map(([, count]) => count));
  const shown = classes.slice(0, 24);
  const bars = shown.map(([name, count]) => {
    const fill = h("i", {});
    fill.style.height = `${Math.max(6, (100 * count) / top)}%`;
    return h(
      "li",
      { title: `${name}: ${count}` },
      h("span", {}, fill),
      h("small", {}, name),
      h("small", {}, String(count)),
    );
  });
  const more =
    classes.length > shown.length
      ? h("li", { class: "nbd-quiet" }, `… ${classes.length - shown.length} more`)
      : null;
  return h("ul", { class: "nbd-classes", "aria-label": "Samples per class" }, ...bars, more);
}
