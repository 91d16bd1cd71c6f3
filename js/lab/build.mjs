// Builds the JupyterLab extension into lab/built/nbdebug, which is what a wheel installs.
//
// JupyterLab loads one script that puts a container of the module federation into `_JUPYTERLAB`. The official builder
// makes it with some 400 packages; the container is small enough to be written down (src/container.ts), so that esbuild
// alone is needed and an installation from source stays quick.
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { scopedViews } from "../styles.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "built", "nbdebug");
const common = {
  bundle: true,
  minify: true,
  write: false,
  target: "es2022",
  logLevel: "warning",
  legalComments: "none",
};

/** Bundles the extension around the modules that JupyterLab shares, and gives their names with it. */
async function extension() {
  const made = await build({
    ...common,
    entryPoints: [join(here, "src", "index.ts")],
    outdir: out,
    format: "cjs",
    external: ["@jupyterlab/*", "@lumino/*"],
    metafile: true,
  });
  const [{ imports }] = Object.values(made.metafile.outputs);
  const needs = [...new Set(imports.filter((one) => one.external).map((one) => one.path))].sort();
  return `export const needs = ${JSON.stringify(needs)};
export function make(require, module) { const exports = module.exports; ${made.outputFiles[0].text} }`;
}

/** Bundles the style sheet of the extension; what it takes from a view stays under that view's class. */
export async function labStyle(path = join(here, "style", "index.css")) {
  const made = await build({ ...common, entryPoints: [path], plugins: [scopedViews] });
  return made.outputFiles[0].text;
}

/** Puts the bundled extension, and the whole style sheet as a text, into the container. */
const inline = {
  name: "extension",
  setup(task) {
    task.onResolve({ filter: /^nbdebug:extension$/ }, ({ path }) => ({ path, namespace: "made" }));
    task.onLoad({ filter: /.*/, namespace: "made" }, async () => ({
      contents: await extension(),
      loader: "js",
    }));
    task.onLoad({ filter: /\.css$/ }, async ({ path }) => ({
      contents: await labStyle(path),
      loader: "text",
    }));
  },
};

export async function buildLab() {
  const made = await build({
    ...common,
    entryPoints: [join(here, "src", "container.ts")],
    format: "iife",
    plugins: [inline],
  });
  const { contents } = made.outputFiles[0];
  const load = `static/remoteEntry.${createHash("sha256").update(contents).digest("hex").slice(0, 16)}.js`;
  const described = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
  described.jupyterlab._build = { load, extension: "./extension", style: "./style" };
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "static"), { recursive: true });
  writeFileSync(join(out, load), contents);
  writeFileSync(join(out, "package.json"), `${JSON.stringify(described, null, 2)}\n`);
  cpSync(join(here, "install.json"), join(out, "install.json"));
  cpSync(join(here, "schema"), join(out, "schemas", "nbdebug"), { recursive: true });
  cpSync(join(here, "package.json"), join(out, "schemas", "nbdebug", "package.json.orig"));
  return { path: join(out, load), size: contents.length };
}
