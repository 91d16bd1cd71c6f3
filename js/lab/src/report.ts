// The dialog that asks which report is exported, and where to.

import { Dialog, showDialog } from "@jupyterlab/apputils";
import { Widget } from "@lumino/widgets";
import { h } from "../../src/dom";
import { asList, asObject } from "../../src/frame";
import type { Answer } from "./kernel";

export interface Choice {
  key: string;
  path: string;
}

export function toReports(answer: Answer): { key: string; text: string }[] {
  return asList<unknown>(answer.reports).map((item) => ({
    key: String(asObject(item).key ?? ""),
    text: String(asObject(item).text ?? ""),
  }));
}

class Body extends Widget implements Dialog.IBodyWidget<Choice> {
  private readonly which: HTMLSelectElement;
  private readonly path: HTMLInputElement;

  constructor(reports: { key: string; text: string }[], path: string) {
    super();
    this.addClass("nbdebug-picker");
    this.which = h(
      "select",
      { "aria-label": "Report" },
      ...reports.map(({ key, text }) => h("option", { value: key }, text)),
    );
    this.path = h("input", { type: "text", value: path, "aria-label": "Save as" });
    this.node.append(h("label", {}, "Report", this.which), h("label", {}, "Save as", this.path));
  }

  getValue(): Choice {
    return { key: this.which.value, path: this.path.value };
  }
}

export async function pickReport(
  reports: { key: string; text: string }[],
  path: string,
): Promise<Choice | null> {
  const result = await showDialog({
    title: "Export a report of nbdebug",
    body: new Body(reports, path),
    buttons: [Dialog.cancelButton(), Dialog.okButton({ label: "Export" })],
  });
  return result.button.accept ? result.value : null;
}
