// Style sheets of the views. The sources write `.nbdebug-view` for the root of whichever view a rule is bundled into; the
// build puts that view's own class in its place, so that several views on one page never style each other.
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const views = join(dirname(fileURLToPath(import.meta.url)), "src", "views");

/** Bundles the style sheets of all views, by the name of the view. */
export async function stylesOfViews() {
  const files = readdirSync(views).filter((file) => file.endsWith(".css"));
  const made = files.map(async (file) => [basename(file, ".css"), await styleOf(join(views, file))]);
  return Object.fromEntries(await Promise.all(made));
}

/** Bundles the style sheet of one view, every rule under the class of that view's root. */
async function styleOf(path) {
  const made = await build({
    bundle: true,
    minify: true,
    write: false,
    logLevel: "warning",
    legalComments: "none",
    entryPoints: [path],
  });
  return made.outputFiles[0].text.replaceAll(/\.nbdebug-view\b/g, `.nbdebug-${basename(path, ".css")}`);
}

/** Lets another style sheet import that of a view. */
export const scopedViews = {
  name: "scoped-views",
  setup(task) {
    task.onLoad({ filter: /[/\\]src[/\\]views[/\\][^/\\]+\.css$/ }, async ({ path }) => ({
      contents: await styleOf(path),
      loader: "css",
    }));
  },
};
