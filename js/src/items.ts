// One item of a sample, drawn as its kind asks: a picture with its mask over it, tokens, a curve, numbers or words.

import { h, short } from "./dom";
import type { Item, Part, Row, Tokens } from "./samples";
import { rangeOf, type Wave, wave } from "./sparks";

const PNG = /^data:image\/png;base64,[A-Za-z0-9+/=]*$/;

export interface Look {
  size: number; // of pictures and curves, in pixels
  label: string;
  columns: number; // of a row of numbers at the most
}

export function drawItem(part: Part, item: Item | undefined, look: Look): Element | null {
  if (item === undefined || item === null) return null;
  switch (part.kind) {
    case "image":
    case "mask":
      return picture(item, part.kind, look);
    case "tokens":
      return tokens(item as Tokens);
    case "series":
      return wave(
        item as Wave,
        2 * look.size,
        0.75 * look.size,
        `${part.name} of ${look.label}`,
        scaleOf(part),
      );
    case "table":
      return numbers(part, item as Row, look.columns);
    default:
      return h("p", { class: "nbd-words" }, String(item));
  }
}

const scales = new WeakMap<Part, [number, number]>();

/** One scale for all samples of a part, so that a loud one looks loud. */
function scaleOf(part: Part): [number, number] {
  const known = scales.get(part) ?? rangeOf(part.items as Wave[]);
  scales.set(part, known);
  return known;
}

/** A picture whose pixels stay sharp; anything but a PNG in the address is refused. */
export function picture(item: Item, kind: string, look: Look): HTMLImageElement | null {
  if (typeof item !== "string" || !PNG.test(item)) return null;
  const image = h("img", {
    class: `nbd-${kind}`,
    alt: `${kind} of ${look.label}`,
    width: look.size,
    decoding: "sync",
  });
  image.src = item;
  return image;
}

function tokens(item: Tokens): HTMLElement {
  const words = item.words.map((word, i) =>
    h("span", { class: item.padding[i] ? "nbd-token nbd-padding" : "nbd-token" }, word),
  );
  const more = item.more > 0 ? h("span", { class: "nbd-quiet" }, ` … ${item.more} more`) : null;
  return h("p", { class: "nbd-tokens" }, ...words, more);
}

function numbers(part: Part, item: Row, most: number): HTMLElement {
  const shown = item.slice(0, most).map((value, i) => {
    const name = part.columns?.[i] ?? String(i);
    const bad = value === null ? "nbd-bad" : "";
    return h("div", {}, h("dt", {}, name), h("dd", { class: bad }, short(value)));
  });
  const more = item.length > most ? h("div", { class: "nbd-quiet" }, `… ${item.length - most} more`) : null;
  return h("dl", { class: "nbd-numbers" }, ...shown, more);
}
