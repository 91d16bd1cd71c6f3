// Elements without markup: every text of the user's goes through `textContent`, so nothing in it can act.

type Child = Node | string | null | undefined | false;
type Props = { class?: string; on?: Record<string, (event: Event) => void>; [attribute: string]: unknown };

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(node: E, props: Props, children: Child[]): E {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [event, act] of Object.entries(props.on ?? {})) node.addEventListener(event, act);
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), props, children);
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** A checkbox with its label. */
export function onlyBox(label: string, checked: boolean, change: (on: boolean) => void): HTMLElement {
  const box = h("input", { type: "checkbox", checked, on: { change: () => change(box.checked) } });
  return h("label", {}, box, label);
}

/** Writes a text only where it is another, so that a screen reader is not told twice. */
export function write(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** A number as a person reads it: three digits, no long rows of zeros. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e5 || size < 1e-3)
    return value.toExponential(1).replace(".0e", "e").replace("e+", "e").replaceAll("-", "−");
  const digits = Number(value.toPrecision(3));
  return (Number.isInteger(value) ? value.toLocaleString("en") : String(digits)).replace("-", "−");
}

/** A share in percent; what is there, however little, is never called 0. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return "";
  if (share > 0 && share < 0.005) return "<1 %";
  return `${Math.round(100 * share)} %`;
}
