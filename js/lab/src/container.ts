// What JupyterLab loads: a container of the module federation. Its two methods are the whole contract: `init` is given
// the modules that JupyterLab shares, `get` gives the extension, which is built around exactly those modules.

import { make, needs } from "nbdebug:extension";
import style from "../style/index.css";

interface Shared {
  get(): Promise<() => unknown> | (() => unknown);
  loaded?: unknown;
}

export type Scope = Record<string, Record<string, Shared>>;

/** Puts versions in order by their numbers. */
function compare(one: string, other: string): number {
  const [a, b] = [one, other].map((version) => version.split(/[.+-]/).map(Number)) as [number[], number[]];
  const at = [0, 1, 2].find((place) => a[place] !== b[place]);
  return at === undefined ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}

/** Gives a module that JupyterLab shares: the one that is in use, or the newest; nothing where there is none. */
export async function shared(scope: Scope, name: string): Promise<unknown> {
  const offers = Object.entries(scope[name] ?? {}).sort(([a], [b]) => compare(b, a));
  const offer = offers.find(([, candidate]) => candidate.loaded) ?? offers[0];
  return offer === undefined ? {} : (await offer[1].get())();
}

export class Container {
  private scope: Scope = {};

  init = (scope: Scope): void => {
    this.scope = scope;
  };

  get = async (part: string): Promise<() => unknown> => {
    if (part === "./style") return () => dress(style);
    const found = await Promise.all(
      needs.map(async (name) => [name, await shared(this.scope, name)] as const),
    );
    const modules = new Map(found);
    const module = { exports: {} };
    make((name) => modules.get(name), module);
    return () => module.exports;
  };
}

/** Adds a style sheet to the page, and gives the module that it stands for. */
function dress(text: string): object {
  const sheet = document.createElement("style");
  sheet.dataset.from = "nbdebug";
  sheet.textContent = text;
  document.head.append(sheet);
  return {};
}

const home = window as unknown as { _JUPYTERLAB?: Record<string, Container> };
home._JUPYTERLAB ??= {};
home._JUPYTERLAB.nbdebug = new Container();
