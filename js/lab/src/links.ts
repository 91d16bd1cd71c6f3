// From a finding to the cell and the line that it is about.

import type { NotebookPanel } from "@jupyterlab/notebook";
import { asObject } from "../../src/frame";

export interface Finding {
  check: string;
  severity: string;
  says: string;
  where: string;
  cell: number | null;
  line: number | null;
  text: string;
  file: string;
  name: string;
}

export interface Source {
  count: number | null;
  text: string;
}

export interface Spot {
  cell: number;
  line: number;
}

export function toFinding(given: unknown): Finding {
  const raw = asObject(given);
  const text = (name: string): string => String(raw[name] ?? "");
  const number = (name: string): number | null =>
    typeof raw[name] === "number" ? (raw[name] as number) : null;
  return {
    check: text("check"),
    severity: text("severity"),
    says: text("says"),
    where: text("where"),
    cell: number("cell"),
    line: number("line"),
    text: text("text"),
    file: text("file"),
    name: text("name"),
  };
}

/** Finds the line in the notebook as it is now: cells are edited, run again and moved after something was found. */
export function locate(cells: readonly Source[], finding: Finding): Spot | null {
  const { cell: count, line, text, file, name } = finding;
  const at = count === null ? -1 : cells.findIndex((cell) => cell.count === count);
  if (at >= 0 && line !== null && lineOf(cells[at], line - 1) === text) return { cell: at, line: line - 1 };
  if (text !== "" && file === "") {
    const found = lastLine(cells, (candidate) => candidate.trim() === text);
    if (found !== null) return found;
  }
  if (!/^[A-Za-z_]\w*$/.test(name)) return null;
  const assigned = new RegExp(`^\\s*${name}\\s*(:[^=]+)?=(?!=)`);
  return lastLine(cells, (candidate) => assigned.test(candidate));
}

function lineOf(cell: Source | undefined, line: number): string {
  return (cell?.text.split("\n")[line] ?? "").trim();
}

function lastLine(cells: readonly Source[], fits: (line: string) => boolean): Spot | null {
  for (let cell = cells.length - 1; cell >= 0; cell -= 1) {
    const line = (cells[cell]?.text ?? "").split("\n").findIndex(fits);
    if (line >= 0) return { cell, line };
  }
  return null;
}

export function sources(panel: NotebookPanel): Source[] {
  return panel.content.widgets.map(({ model }) => ({
    count:
      model.type === "code" ? (model as unknown as { executionCount: number | null }).executionCount : null,
    text: model.type === "code" ? model.sharedModel.getSource() : "",
  }));
}

/** Shows a line of the notebook: its cell is scrolled to, and the line is selected. */
export async function jump(panel: NotebookPanel, spot: Spot): Promise<void> {
  const { content } = panel;
  const cell = content.widgets[spot.cell];
  if (cell === undefined) return;
  content.deselectAll();
  content.activeCellIndex = spot.cell;
  await content.scrollToCell(cell);
  await cell.ready;
  const { editor } = cell;
  if (editor === null) return;
  content.mode = "edit";
  const length = editor.getLine(spot.line)?.length ?? 0;
  editor.setSelection({ start: { line: spot.line, column: 0 }, end: { line: spot.line, column: length } });
  editor.revealPosition({ line: spot.line, column: 0 });
  editor.focus();
}
