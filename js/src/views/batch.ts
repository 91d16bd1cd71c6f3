// What the network receives: the samples of one batch as cards or as a table, with labels and what a model makes of
// them. Class names, tokens and column names come from the user and are only ever written as text.

import type { RenderProps } from "@anywidget/types";
import { batchTable, type Sorting } from "../batch-table";
import { caption, classBars, facts, stack } from "../cards";
import { h, onlyBox } from "../dom";
import { asList, asObject, type Frame, frame, oneTabStop, onKey, roving, type Traits } from "../frame";
import { drawItem } from "../items";
import {
  arranged,
  type Batch,
  ORDERS,
  type Order,
  orders,
  type Part,
  type Sample,
  toBatch,
} from "../samples";

const CARD = 112;
const LARGE = 260;

class BatchView {
  private batch: Batch = toBatch(null);
  private order: Order = "drawn";
  private wrongOnly = false;
  private masks = true;
  private chosen = -1;
  private sorting: Sorting | null = null;
  private readonly frame: Frame;
  private readonly head = h("header");
  private readonly bar = h("div", { class: "nbd-bar", role: "toolbar", "aria-label": "Batch" });
  private readonly body = h("div", { class: "nbd-body" });
  private readonly detail = h("div", { class: "nbd-detail", "aria-live": "polite" });

  constructor(private readonly props: RenderProps<Traits>) {
    const { model, el } = props;
    this.frame = frame(model, el, "batch", "Batch", { data: this.update, detail: this.showDetail });
    this.frame.root.append(this.head, this.bar, this.body, this.detail);
    roving(this.frame.root, "[data-place]");
    onKey(this.frame.root, (event) => {
      if (event.key === "Escape") this.choose(-1);
    });
    this.update();
  }

  close = (): void => this.frame.close();

  private readonly update = (): void => {
    this.batch = toBatch(this.props.model.get("data"));
    this.chosen = -1;
    this.sorting = null;
    if (!orders(this.batch.samples).includes(this.order)) this.order = "drawn";
    this.detail.replaceChildren();
    this.drawHead();
    this.drawBar();
    this.drawBody();
  };

  private drawHead(): void {
    const { number, of, size, draws, model, samples, parts, notes, classes } = this.batch;
    const wrong = samples.filter((sample) => sample.right === false).length;
    const known = samples.some((sample) => sample.right !== null);
    const title = `Batch ${number}${of === null ? "" : ` of ${of}`} · ${size} samples${draws > 1 ? ` · sampled ${draws} times` : ""}`;
    const verdict = known
      ? h("span", { class: "nbd-quiet" }, ` · ${model} is wrong on ${wrong} of ${samples.length}`)
      : null;
    const said = parts.map((part) =>
      h(
        "li",
        {},
        h("b", {}, part.name),
        `${part.role === part.name ? "" : ` ${part.role}`} · ${part.kind} · ${part.shape} ${part.dtype}`,
        h("span", { class: "nbd-quiet" }, part.says.length > 0 ? ` · ${part.says.join(" · ")}` : ""),
      ),
    );
    const remarks = notes.map((note) => h("li", { class: "nbd-quiet" }, note));
    this.head.replaceChildren(
      h("h3", {}, title, verdict),
      h("ul", { class: "nbd-said" }, ...said, ...remarks),
    );
    if (classes.length > 1) this.head.append(classBars(classes));
  }

  private drawBar(): void {
    const { batch } = this;
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.act;
    const button = (text: string, act: string, disabled: boolean): HTMLButtonElement =>
      h(
        "button",
        { type: "button", "data-act": act, disabled, on: { click: () => this.frame.ask(act) } },
        text,
      );
    const wrong = batch.samples.filter((sample) => sample.right === false).length;
    this.bar.replaceChildren(
      button("◀ Previous", "previous", !batch.hasPrevious),
      button("Next batch ▶", "next", false),
      ...(batch.canRedraw ? [button("↻ Draw again", "again", false)] : []),
      this.orderChoice(),
      ...(batch.samples.some((sample) => sample.right !== null)
        ? [
            onlyBox(`wrong only (${wrong})`, this.wrongOnly, (on) => {
              this.wrongOnly = on;
              this.drawBody();
            }),
          ]
        : []),
      ...(batch.parts.some((part) => part.kind === "mask")
        ? [
            onlyBox("masks", this.masks, (on) => {
              this.masks = on;
              this.drawBody();
            }),
          ]
        : []),
      this.frame.status,
    );
    if (focused) this.bar.querySelector<HTMLElement>(`[data-act="${focused}"]`)?.focus();
  }

  private orderChoice(): HTMLElement {
    const choice = h("select", {
      "aria-label": "Order of the samples",
      on: {
        change: () => {
          this.order = choice.value as Order;
          this.drawBody();
        },
      },
    });
    for (const order of orders(this.batch.samples)) {
      choice.append(h("option", { value: order, selected: order === this.order }, ORDERS[order]));
    }
    return h("label", {}, "order", choice);
  }

  private drawBody(): void {
    const { samples, parts } = this.batch;
    const places = arranged(samples, this.order, this.wrongOnly);
    const shown = parts.filter((part) => this.masks || part.kind !== "mask");
    const table = parts.find((part) => part.kind === "table" && part.role === "input");
    const only = table !== undefined && shown.every((part) => part === table);
    if (places.length === 0) {
      this.body.replaceChildren(
        h("p", { class: "nbd-quiet" }, this.wrongOnly ? "No sample is wrong." : "No samples."),
      );
    } else if (only) {
      this.body.replaceChildren(this.table(table, places));
    } else {
      const wide = shown.some(
        (part) => part.kind === "tokens" || part.kind === "value" || part.kind === "series",
      );
      const cards = places.map((place) => this.card(place, shown));
      this.body.replaceChildren(h("div", { class: wide ? "nbd-cards nbd-wide" : "nbd-cards" }, ...cards));
    }
    oneTabStop(this.body, "[data-place]", places.indexOf(this.chosen));
  }

  private table(part: Part, places: number[]): HTMLElement {
    return batchTable({
      part,
      samples: this.batch.samples,
      places,
      sorting: this.sorting,
      chosen: this.chosen,
      onSort: (sorting) => {
        this.sorting = sorting;
        this.drawBody();
        this.body.querySelectorAll<HTMLElement>("th button")[sorting.column]?.focus();
      },
      onChoose: (place) => this.choose(place),
    });
  }

  private card(place: number, parts: Part[]): HTMLElement {
    const sample = this.batch.samples[place] as Sample;
    const label = `sample ${sample.index ?? place}`;
    return h(
      "button",
      {
        type: "button",
        class: "nbd-card",
        "data-place": place,
        "data-right": sample.right === null ? null : String(sample.right),
        "aria-pressed": String(place === this.chosen),
        "aria-label": `${label}, ${caption(sample)}`,
        on: { click: () => this.choose(place === this.chosen ? -1 : place) },
      },
      stack(parts, place, { size: CARD, label, columns: 3 }),
      facts(sample, place),
    );
  }

  private choose(place: number): void {
    this.chosen = place;
    for (const each of this.body.querySelectorAll<HTMLElement>("[data-place]")) {
      const here = Number(each.dataset.place) === place;
      if (each.matches(".nbd-card")) each.setAttribute("aria-pressed", String(here));
      else each.closest("tr")?.setAttribute("aria-selected", String(here));
    }
    this.showDetail();
    if (place >= 0) this.frame.ask("sample", { place });
  }

  /** Shows the chosen sample at once from what is here, and more of it when the kernel has answered. */
  private readonly showDetail = (): void => {
    const sample = this.batch.samples[this.chosen];
    if (sample === undefined) {
      this.detail.replaceChildren();
      return;
    }
    const given = asObject(this.props.model.get("detail"));
    const fresh = given.place === this.chosen && given.index === sample.index;
    const label = `sample ${sample.index ?? this.chosen}`;
    const large = fresh ? asList<Part>(given.large) : this.batch.parts;
    const look = { size: LARGE, label, columns: 60 };
    const group = (name: string, parts: Part[], size: number): (Element | null)[] =>
      parts.flatMap((part) => [
        h(
          "h4",
          {},
          name,
          h("span", { class: "nbd-quiet" }, part.says.length > 0 ? ` · ${part.says.join(" · ")}` : ""),
        ),
        h(
          "div",
          { class: "nbd-draws" },
          ...part.items.map((item) => drawItem(part, item, { ...look, size })),
        ),
      ]);
    this.detail.replaceChildren(
      h("h4", {}, `${label} · ${caption(sample)}`),
      stack(large, fresh ? 0 : this.chosen, look),
      ...(fresh
        ? [
            ...group("before the transforms", asList<Part>(given.raw), LARGE / 2),
            ...group("resampled, as in other epochs", asList<Part>(given.draws), CARD),
            ...asList<string>(given.notes).map((note) => h("p", { class: "nbd-quiet" }, note)),
          ].filter((node): node is Element => node !== null)
        : []),
    );
  };
}

export default {
  render(props: RenderProps<Traits>): () => void {
    return new BatchView(props).close;
  },
};
