// The tree of stages and steps as data: what the kernel may send, the order in which rows are shown, and
// where the arrow keys lead. Nothing here touches the DOM.

export const STATES = ["not-run", "running", "clean", "found", "skipped", "crashed", "stale"] as const;
export type State = (typeof STATES)[number];

export interface Step {
  id: string;
  title: string;
  state: State;
  count: number;
}

export interface Stage {
  id: string;
  title: string;
  state: State;
  steps: Step[];
}

/** One line of the tree. `key` is unique even if two rows share an id; `parent` is the key of its stage. */
export interface Row {
  key: string;
  parent: string | null;
  id: string;
  title: string;
  state: State;
  count: number;
}

/** A shape for each state, so that color is never the only sign. */
export const ICONS: Record<State, string> = {
  "not-run": "○",
  running: "◐",
  clean: "✓",
  found: "▲",
  skipped: "–",
  crashed: "✕",
  stale: "↻",
};

const WORDS: Record<State, string> = {
  "not-run": "not run",
  running: "running",
  clean: "clean",
  found: "found",
  skipped: "skipped",
  crashed: "crashed",
  stale: "out of date",
};

/** The state in words, with the number of findings where there is one. */
export function describe(state: State, count: number): string {
  return state === "found" && count > 0 ? `${count} found` : WORDS[state];
}

/** Turns whatever arrived into rows, stage by stage; what is not a stage or a step is left out. */
export function toRows(value: unknown): Row[] {
  const rows: Row[] = [];
  const used = new Set<string>();
  for (const stage of records(value)) {
    const row = toRow(stage, null, used);
    rows.push(row);
    for (const step of records(stage.steps)) rows.push(toRow(step, row.key, used));
  }
  return rows;
}

function toRow(record: Record<string, unknown>, parent: string | null, used: Set<string>): Row {
  const id = text(record.id);
  const state = STATES.find((known) => known === record.state) ?? "not-run";
  const count = typeof record.count === "number" && record.count > 0 ? Math.floor(record.count) : 0;
  return { key: freshKey(id, parent, used), parent, id, title: text(record.title) || id, state, count };
}

function freshKey(id: string, parent: string | null, used: Set<string>): string {
  const wanted = JSON.stringify(parent === null ? [id] : [parent, id]);
  let key = wanted;
  for (let copy = 2; used.has(key); copy++) key = `${wanted}#${copy}`;
  used.add(key);
  return key;
}

function records(value: unknown): Record<string, unknown>[] {
  if (!Array.isArray(value)) return [];
  return value.filter((item) => typeof item === "object" && item !== null && !Array.isArray(item));
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The key of the row that a key press leads to from `from`, or null if the press means nothing here. */
export function destination(rows: readonly Row[], from: string, press: string): string | null {
  const at = rows.findIndex((row) => row.key === from);
  const row = rows[at];
  if (row === undefined) return null;
  switch (press) {
    case "ArrowDown":
      return rows[at + 1]?.key ?? null;
    case "ArrowUp":
      return rows[at - 1]?.key ?? null;
    case "ArrowRight":
      return rows[at + 1]?.parent === row.key ? (rows[at + 1]?.key ?? null) : null;
    case "ArrowLeft":
      return row.parent;
    case "Home":
      return rows[0]?.key ?? null;
    case "End":
      return rows.at(-1)?.key ?? null;
    default:
      return null;
  }
}

/** The one row that Tab reaches: the one last focused, else the selected one, else the first. */
export function tabStop(rows: readonly Row[], focused: string | null, selected: string): string | null {
  const row =
    rows.find(({ key }) => key === focused) ?? rows.find(({ id }) => id !== "" && id === selected) ?? rows[0];
  return row?.key ?? null;
}
