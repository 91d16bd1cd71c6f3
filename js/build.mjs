// Bundles every view in src/views into the Python package: `stage-tree.ts` becomes `stage_tree.js`, and the
// style sheet beside it `stage_tree.css`. A view that grows past its budget fails the build, because
// anywidget repeats the bundle in the saved state of each instance. The JupyterLab extension is built beside them.
import { readdirSync, statSync } from "node:fs";
import { basename, dirname, extname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { buildLab } from "./lab/build.mjs";

const BUDGET = 20_000;
const here = dirname(fileURLToPath(import.meta.url));
const views = join(here, "src", "views");
const out = join(here, "..", "nbdebug", "widgets", "static");

const sources = readdirSync(views).filter((file) => [".ts", ".css"].includes(extname(file)));
const output = (file) => basename(file, extname(file)).replaceAll("-", "_");

const entriesOf = (extension) =>
  sources
    .filter((file) => extname(file) === extension)
    .map((file) => ({ in: join(views, file), out: output(file) }));

const common = { bundle: true, minify: true, outdir: out, logLevel: "warning", legalComments: "none" };
await Promise.all([
  build({ ...common, entryPoints: entriesOf(".ts"), format: "esm", target: "es2022" }),
  build({ ...common, entryPoints: entriesOf(".css") }),
]);

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
