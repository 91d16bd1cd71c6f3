import { describe, expect, it } from "vitest";
import { labStyle } from "../lab/build.mjs";
import { stylesOfViews } from "../styles.mjs";

const sheets = await stylesOfViews();
// What a view may style beside its own root: the wizard draws its busy buttons around the tree.
const ALSO: Record<string, string[]> = { "stage-tree": [".nbdebug-wizard"] };
// What names the theme of the page before the root of a view.
const THEME = /^(\[data-jp-theme-light=("false"|false)\]|\.vscode-dark|\[theme=("dark"|dark)\]|\.dark) /;

/** Gives every selector of a minified style sheet; commas inside parentheses separate nothing. */
function selectors(css: string): string[] {
  const heads = [...css.matchAll(/(?<=^|[{};])([^{};]+)\{/g)].map((match) => match[1] ?? "");
  return heads
    .filter((head) => !head.startsWith("@"))
    .flatMap((head) => head.split(/,(?![^(]*\))/))
    .map((selector) => selector.trim());
}

const isUnder = (selector: string, root: string): boolean => {
  const own = selector.replace(THEME, "");
  return own.startsWith(root) && !/[\w-]/.test(own.charAt(root.length));
};

describe.each(Object.entries(sheets))("%s", (name, sheet) => {
  const roots = [`.nbdebug-${name}`, ...(ALSO[name] ?? [])];

  it("styles nothing outside its own root", () => {
    const found = selectors(sheet);
    expect(found.length).toBeGreaterThan(10);
    expect(found.filter((selector) => !roots.some((root) => isUnder(selector, root)))).toEqual([]);
  });
});

it("finds a rule that is not scoped, also inside a condition and after a comma", () => {
  expect(selectors(".a b,.c:is(d,e) f{x:y}@container (max-width: 1px){g{x:y}}h{}")).toEqual([
    ".a b",
    ".c:is(d,e) f",
    "g",
    "h",
  ]);
  expect(isUnder(".nbdebug-batches p", ".nbdebug-batch")).toBe(false);
  expect(isUnder(".dark .nbdebug-batch p", ".nbdebug-batch")).toBe(true);
});

it("styles nothing of the page from the extension, and of the views only the curves it shows", async () => {
  const found = selectors(await labStyle()).map((selector) => selector.replace(THEME, ""));
  expect(found.filter((selector) => !selector.startsWith(".nbdebug-"))).toEqual([]);
  const views = Object.keys(sheets).map((name) => `.nbdebug-${name}`);
  const foreign = [...views, ".nbdebug-view", ".nbdebug-wizard"].filter((root) => root !== ".nbdebug-curve");
  expect(found.filter((selector) => foreign.some((root) => isUnder(selector, root)))).toEqual([]);
});
