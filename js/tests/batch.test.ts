// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from "vitest";
import view from "../src/views/batch";
import { FakeModel } from "./fake-model";

const HOSTILE = '<img src=x onerror="globalThis.hacked = true">';
const PNG = "data:image/png;base64,iVBORw0KGgo=";
const sample = (index: number, loss: number, right: boolean) => ({
  index,
  target: index === 0 ? HOSTILE : `class ${index}`,
  predicted: "x",
  confidence: 0.5,
  loss,
  right,
});
const part = (kind: string, items: unknown[], more = {}) => ({
  name: HOSTILE,
  role: "input",
  kind,
  shape: "3 × 4",
  dtype: "float32",
  says: [HOSTILE],
  items,
  ...more,
});
const BATCH = {
  number: 1,
  of: 9,
  size: 3,
  draws: 1,
  model: "Net",
  canRedraw: true,
  hasPrevious: false,
  notes: [HOSTILE],
  classes: [
    [HOSTILE, 2],
    ["b", 1],
  ],
  parts: [part("image", [PNG, PNG, "javascript:alert(1)"])],
  samples: [sample(0, 0.5, true), sample(1, 3, false), sample(2, 0.1, true)],
};
const TABLE = {
  ...BATCH,
  parts: [
    part("table", [[1], [null], [3]], {
      columns: [HOSTILE],
      histograms: [{ counts: [1, 1], low: 1, high: 3 }],
    }),
  ],
};

let el: HTMLElement;
let model: FakeModel;
let unmount: () => void;
const places = () =>
  [...el.querySelectorAll<HTMLElement>("[data-place]")].map((each) => Number(each.dataset.place));
const button = (text: string) => {
  const found = [...el.querySelectorAll("button")].find((each) => each.textContent?.includes(text));
  if (found === undefined) throw new Error(`no button ${text}`);
  return found;
};
const choose = (order: string) => {
  const select = el.querySelector("select") as HTMLSelectElement;
  select.value = order;
  select.dispatchEvent(new Event("change"));
};
const tick = (box: HTMLInputElement, on: boolean) => {
  box.checked = on;
  box.dispatchEvent(new Event("change"));
};

beforeEach(() => {
  document.body.replaceChildren();
  document.head.replaceChildren();
  el = document.createElement("div");
  document.body.append(el);
  model = new FakeModel({ data: BATCH, detail: {}, status: "", key: "abc123", request: {} });
  unmount = view.render(model.props(el));
});

describe("the batch", () => {
  it("shows a card a sample with its target, prediction and loss", () => {
    expect(places()).toEqual([0, 1, 2]);
    const card = el.querySelector('[data-place="1"]');
    expect(card?.textContent).toContain("class 1");
    expect(card?.textContent).toContain("x 50 % ✗");
    expect(card?.textContent).toContain("loss 3");
    expect(el.querySelector("h3")?.textContent).toBe("Batch 1 of 9 · 3 samples · Net is wrong on 1 of 3");
  });

  it("sorts by loss and keeps the wrong ones only", () => {
    choose("loss");
    expect(places()).toEqual([1, 0, 2]);
    tick(el.querySelector("input") as HTMLInputElement, true);
    expect(places()).toEqual([1]);
  });

  it("asks the kernel for the next batch and for one sample", () => {
    button("Next batch").click();
    expect(model.saved).toHaveBeenLastCalledWith(
      expect.objectContaining({ request: expect.objectContaining({ action: "next" }) }),
    );
    (el.querySelector('[data-place="2"]') as HTMLElement).click();
    expect(model.saved).toHaveBeenLastCalledWith(
      expect.objectContaining({ request: expect.objectContaining({ action: "sample", place: 2 }) }),
    );
    model.receive("detail", {
      place: 2,
      index: 2,
      large: [],
      raw: [],
      draws: [],
      notes: ["from the kernel"],
    });
    expect(el.querySelector(".nbd-detail")?.textContent).toContain("from the kernel");
  });

  it("keeps order and filter, and the focus of its buttons, when the next batch comes", () => {
    choose("low");
    button("Next batch").focus();
    model.receive("data", { ...BATCH, number: 2, hasPrevious: true });
    expect(places()).toEqual([2, 0, 1]);
    expect(document.activeElement).toBe(button("Next batch"));
    expect(button("Previous").disabled).toBe(false);
  });

  it("moves among the cards by the arrow keys, with one of them in the tab order", () => {
    const cards = [...el.querySelectorAll<HTMLElement>("[data-place]")];
    expect(cards.filter((card) => card.tabIndex === 0)).toHaveLength(1);
    cards[0]?.focus();
    cards[0]?.dispatchEvent(
      new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true }),
    );
    expect(document.activeElement).toBe(cards[1]);
    expect(cards[1]?.tabIndex).toBe(0);
  });

  it("hides the static picture while it is there, and cleans up after itself", () => {
    expect(document.head.textContent).toContain("nbdebug-static-abc123");
    unmount();
    expect(document.head.textContent).toBe("");
    expect(el.childElementCount).toBe(0);
    expect(model.listenerCount).toBe(0);
  });
});

describe("a table", () => {
  beforeEach(() => model.receive("data", TABLE));

  it("sorts by a click on a column and says so", () => {
    const head = () => [...el.querySelectorAll("th")].at(-1) as HTMLElement;
    head().querySelector("button")?.click();
    expect(places()).toEqual([2, 0, 1]);
    expect(head().getAttribute("aria-sort")).toBe("descending");
    head().querySelector("button")?.click();
    expect(places()).toEqual([0, 2, 1]);
  });

  it("names what is no number", () => {
    expect(el.querySelector("td.nbd-bad:last-child")?.textContent).toBe("NaN");
  });
});

describe("untrusted texts", () => {
  it("stay texts, and only pictures become pictures", () => {
    for (const kind of ["image", "table", "value", "tokens"]) {
      const items = kind === "tokens" ? [{ words: [HOSTILE], padding: [1], more: 0 }] : [HOSTILE];
      model.receive("data", {
        ...BATCH,
        parts: [part(kind, kind === "table" ? [[1]] : items, { columns: [HOSTILE] })],
      });
      expect([...el.querySelectorAll("img")].map((each) => each.src)).toEqual([]);
    }
    model.receive("data", BATCH);
    expect(new Set([...el.querySelectorAll("img")].map((each) => each.getAttribute("src")))).toEqual(
      new Set([PNG]),
    );
    expect(el.querySelector("[data-place='0'] b")?.textContent).toBe(HOSTILE);
    expect("hacked" in globalThis).toBe(false);
  });
});
