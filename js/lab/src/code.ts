// The code of the cells that the extension inserts.

export const ROLES = ["model", "loader", "loss_fn", "optimizer"] as const;
export type Role = (typeof ROLES)[number];
/** The variable that was picked for each role; an empty one is left to nbdebug. */
export type Picked = Record<Role, string>;

/** Writes a JSON value as Python would. */
export function literal(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([key, item]) => `${JSON.stringify(key)}: ${literal(item)}`)
      .join(", ")}}`;
  return JSON.stringify(value);
}

/** Writes the arguments: by position as long as none is missing before them, and then by name. */
export function callArguments(picked: Picked, options: Record<string, unknown> = {}): string {
  const written: string[] = [];
  let isWhole = true;
  for (const role of ROLES) {
    if (picked[role] === "") isWhole = false;
    else written.push(isWhole ? picked[role] : `${role}=${picked[role]}`);
  }
  for (const [name, value] of Object.entries(options)) written.push(`${name}=${literal(value)}`);
  return written.join(", ");
}

export function wizardCell(picked: Picked, options: Record<string, unknown> = {}): string {
  return `import nbdebug\n\nnbdebug.wizard(${callArguments(picked, options)})`;
}

/** Writes what opens the wizard in the panel; no variable is made, and the cell's number does not change. */
export function openingCode(picked: Picked, options: Record<string, unknown> = {}): string {
  const roles = ROLES.filter((role) => picked[role] !== "");
  const names = Object.fromEntries(roles.map((role) => [role, picked[role]]));
  const given = [...roles.map((role) => picked[role]), `names=${literal(names)}`];
  for (const [name, value] of Object.entries(options)) given.push(`${name}=${literal(value)}`);
  return `__import__("nbdebug.integrations.lab.panel", fromlist=["open_wizard"]).open_wizard(${given.join(", ")})`;
}
