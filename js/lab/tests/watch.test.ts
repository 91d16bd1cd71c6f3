// @vitest-environment happy-dom
import { describe, expect, it, vi } from "vitest";

vi.mock("@lumino/widgets", () => ({
  Widget: class {
    node = document.createElement("div");
    isHidden = false;
    addClass(): void {}
    hide(): void {
      this.isHidden = true;
    }
    setHidden(hidden: boolean): void {
      this.isHidden = hidden;
    }
  },
}));
const { inWords, toWatch, WatchLine } = await import("../src/watch");

const RUNNING = { running: true, steps: 1200, loss: 0.53219, health: { state: "healthy", check: "" } };

describe("the line of a watched training", () => {
  it("says step, loss and health", () => {
    expect(inWords(toWatch(RUNNING))).toBe("step 1,200 · loss 0.532 · healthy");
    const sick = { ...RUNNING, loss: "NaN", health: { state: "bug", check: "non-finite-loss" } };
    expect(inWords(toWatch(sick))).toBe("step 1,200 · loss NaN · bug: non-finite-loss");
    expect(inWords(toWatch({ ...RUNNING, steps: 0, loss: null }))).toBe("step 0 · healthy");
  });

  it("is there while it runs, with a button that stops it, and takes no markup", () => {
    const stop = vi.fn();
    const line = new WatchLine(stop);
    expect(line.isHidden).toBe(true);
    line.tell(toWatch({ ...RUNNING, health: { state: "bug", check: "<img src=x>" } }));
    expect([line.isHidden, line.node.dataset.state]).toEqual([false, "bug"]);
    expect(line.node.querySelector("img")).toBeNull();
    line.node.querySelector("button")?.click();
    expect(stop).toHaveBeenCalledOnce();
    line.tell(toWatch({ running: false }));
    expect(line.isHidden).toBe(true);
  });
});
