// Bundles every view in src/views into the Python package: `stage-tree.ts` becomes `stage_tree.js`, and the
// style sheet beside it `stage_tree.css`. A view that grows past its budget fails the build, because
// anywidget repeats the bundle in the saved state of each instance. The JupyterLab extension is built beside them.
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { buildLab } from "./lab/build.mjs";
import { stylesOfViews } from "./styles.mjs";

const BUDGET = 20_000;
const here = dirname(fileURLToPath(import.meta.url));
const views = join(here, "src", "views");
const out = join(here, "..", "nbdebug", "widgets", "static");

const sources = readdirSync(views).filter((file) => [".ts", ".css"].includes(extname(file)));
const output = (file) => basename(file, extname(file)).replaceAll("-", "_");

mkdirSync(out, { recursive: true });
await build({
  bundle: true,
  minify: true,
  outdir: out,
  logLevel: "warning",
  legalComments: "none",
  format: "esm",
  target: "es2022",
  entryPoints: sources
    .filter((file) => extname(file) === ".ts")
    .map((file) => ({ in: join(views, file), out: output(file) })),
});
for (const [name, style] of Object.entries(await stylesOfViews())) {
  writeFileSync(join(out, `${output(name)}.css`), style);
}

for (const file of sources) {
  const built = join(out, output(file) + (extname(file) === ".ts" ? ".js" : ".css"));
  const { size } = statSync(built);
  console.log(`${relative(join(here, ".."), built)}  ${size} bytes`);
  if (size > BUDGET) {
    console.error(`${basename(built)} has ${size} bytes; the budget of a view is ${BUDGET}.`);
    process.exitCode = 1;
  }
}

const { path, size } = await buildLab();
console.log(`${relative(join(here, ".."), path)}  ${size} bytes`);
