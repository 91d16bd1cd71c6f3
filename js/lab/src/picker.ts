// The dialog that asks which of the kernel's variables are the model, the loader, the loss and the optimizer.

import { Dialog, showDialog } from "@jupyterlab/apputils";
import { Widget } from "@lumino/widgets";
import { h } from "../../src/dom";
import { asList } from "../../src/frame";
import { type Picked, ROLES, type Role } from "./code";
import type { Answer } from "./kernel";

export interface Candidate {
  name: string;
  text: string;
}

export type Candidates = Record<Role, Candidate[]>;
export type Place = "cell" | "beside";

const IN_CELL = "nbdebug:in-cell"; // what the second button does, whatever its label says

const WORDS: Record<Role, { label: string; none: string }> = {
  model: { label: "Model", none: "" },
  loader: { label: "Loader", none: "" },
  loss_fn: { label: "Loss", none: "inferred from outputs and labels" },
  optimizer: { label: "Optimizer", none: "Adam, on the copy" },
};

export function toCandidates(answer: Answer): Candidates {
  const listed = (role: Role): Candidate[] =>
    asList<Record<string, unknown>>(answer[role]).map((item) => ({
      name: String(item.name ?? ""),
      text: String(item.text ?? ""),
    }));
  return Object.fromEntries(ROLES.map((role) => [role, listed(role)])) as Candidates;
}

/** Says what is missing for a diagnosis; empty where nothing is. */
export function missing(candidates: Candidates): string {
  const lacking = (["model", "loader"] as const).filter((role) => candidates[role].length === 0);
  if (lacking.length === 0) return "";
  const what = lacking.map((role) => (role === "model" ? "torch model" : "loader")).join(" and no ");
  return `There is no ${what} among the variables of this kernel. Run the cells that make them, and try again.`;
}

/** Four fields, each with what could be meant, the most likely chosen. */
export class Picker extends Widget implements Dialog.IBodyWidget<Picked> {
  private readonly fields: Record<Role, HTMLSelectElement>;

  constructor(candidates: Candidates) {
    super();
    this.addClass("nbdebug-picker");
    this.fields = Object.fromEntries(ROLES.map((role) => [role, field(role, candidates[role])])) as Record<
      Role,
      HTMLSelectElement
    >;
    for (const role of ROLES) this.node.append(h("label", {}, WORDS[role].label, this.fields[role]));
  }

  getValue(): Picked {
    return Object.fromEntries(ROLES.map((role) => [role, this.fields[role].value])) as Picked;
  }
}

function field(role: Role, candidates: Candidate[]): HTMLSelectElement {
  const { label, none } = WORDS[role];
  const options = candidates.map(({ name, text }) => h("option", { value: name }, `${name}: ${text}`));
  if (none !== "") options.push(h("option", { value: "" }, none));
  return h("select", { "aria-label": label, name: role }, ...options);
}

/** Asks, and gives what was picked and where the wizard is wanted; null where the user changed their mind. */
export async function pick(candidates: Candidates): Promise<{ picked: Picked; place: Place } | null> {
  const result = await showDialog({
    title: "Troubleshoot with nbdebug",
    body: new Picker(candidates),
    buttons: [
      Dialog.cancelButton(),
      Dialog.okButton({ label: "Open beside the notebook" }),
      Dialog.okButton({ label: "Insert a cell", actions: [IN_CELL] }),
    ],
    defaultButton: 2,
  });
  if (!result.button.accept || result.value === null) return null;
  return { picked: result.value, place: result.button.actions.includes(IN_CELL) ? "cell" : "beside" };
}
