import { describe, expect, it, vi } from "vitest";

vi.mock("nbdebug:extension", () => ({
  needs: ["@jupyterlab/notebook", "@lumino/gone"],
  make: (require: (name: string) => unknown, module: { exports: unknown }) => {
    module.exports = { notebook: require("@jupyterlab/notebook"), gone: require("@lumino/gone") };
  },
}));
vi.mock("../style/index.css", () => ({ default: ".nbdebug {}" }));
vi.stubGlobal("window", {});
const { Container, shared } = await import("../src/container");

const offer = (value: string, loaded = false) => ({ get: async () => () => value, loaded });

describe("the container that JupyterLab loads", () => {
  it("puts itself where JupyterLab looks", () => {
    const home = window as unknown as { _JUPYTERLAB: Record<string, unknown> };
    expect(home._JUPYTERLAB.nbdebug).toBeInstanceOf(Container);
  });

  it("builds the extension around the shared modules, and does without what is not shared", async () => {
    const container = new Container();
    container.init({ "@jupyterlab/notebook": { "4.2.0": offer("theirs") } });
    expect((await container.get("./extension"))()).toEqual({ notebook: "theirs", gone: {} });
  });

  it("takes the module that is in use, else the newest", async () => {
    const scope = { a: { "4.9.1": offer("older"), "4.10.0": offer("newer") } };
    expect(await shared(scope, "a")).toBe("newer");
    expect(await shared({ a: { ...scope.a, "4.2.0": offer("in use", true) } }, "a")).toBe("in use");
  });
});
