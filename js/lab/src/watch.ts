// A watched training as the status bar shows it: step, loss, health, and a way to stop it.

import { Widget } from "@lumino/widgets";
import { h, short, write } from "../../src/dom";
import { asObject } from "../../src/frame";

export interface Watch {
  isRunning: boolean;
  steps: number;
  loss: number | null;
  state: string;
  check: string;
}

export function toWatch(message: unknown): Watch {
  const data = asObject(message);
  const health = asObject(data.health);
  return {
    isRunning: data.running === true,
    steps: Number(data.steps ?? 0),
    loss: data.loss === null || data.loss === undefined ? null : Number(data.loss),
    state: String(health.state ?? "healthy"),
    check: String(health.check ?? ""),
  };
}

/** Says how it goes, in words, because a color alone says it to some people only. */
export function inWords(watch: Watch): string {
  const loss = watch.loss === null ? [] : [`loss ${short(watch.loss)}`];
  const health = watch.check === "" ? watch.state : `${watch.state}: ${watch.check}`;
  return [`step ${short(watch.steps)}`, ...loss, health].join(" · ");
}

/** One line with a button; it hides while nothing is watched. */
export class WatchLine extends Widget {
  private readonly text = h("span", { class: "nbdebug-watch-text" });
  private readonly mark = h("span", { class: "nbdebug-watch-mark", "aria-hidden": "true" }, "●");

  constructor(stop: () => void) {
    super();
    this.addClass("nbdebug-watch");
    const label = "Interrupt the training; the watch keeps what it has recorded";
    const button = h("button", { type: "button", title: label, on: { click: stop } }, "Stop");
    this.node.append(this.mark, this.text, button);
    this.node.title = "nbdebug watches a training";
    this.hide();
  }

  tell(watch: Watch): void {
    this.setHidden(!watch.isRunning);
    this.node.dataset.state = watch.state;
    write(this.text, inWords(watch));
  }
}
