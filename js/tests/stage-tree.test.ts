// @vitest-environment happy-dom
import { beforeEach, describe, expect, it, vi } from "vitest";
import view from "../src/views/stage-tree";
import { FakeModel } from "./fake-model";

const step = (id: string, state = "not-run", count = 0) => ({ id, title: `Step ${id}`, state, count });
const stage = (id: string, steps: object[], state = "not-run") => ({
  id,
  title: `Stage ${id}`,
  state,
  steps,
});
const TREE = [stage("data", [step("a"), step("b")]), stage("model", [step("c")])];

let el: HTMLElement;
let model: FakeModel;
let unmount: () => void;

const buttons = () => [...el.querySelectorAll("button")];
const button = (id: string) => {
  const found = buttons().find((candidate) => candidate.dataset.id === id);
  if (found === undefined) throw new Error(`no button for ${id}`);
  return found;
};
const ids = () => buttons().map((each) => each.dataset.id);
const press = (id: string, key: string, more = {}) => {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
  button(id).dispatchEvent(event);
  return event;
};

beforeEach(() => {
  document.body.replaceChildren();
  el = document.createElement("div");
  document.body.append(el);
  model = new FakeModel({ stages: TREE, selected: "a" });
  unmount = view.render(model.props(el));
});

describe("the tree", () => {
  it("is a nested list of buttons with icon, title and state in words", () => {
    expect(ids()).toEqual(["data", "a", "b", "model", "c"]);
    expect(button("a").closest("ul")?.closest("li")).toBe(button("data").closest("li"));
    expect([...button("a").children].map((part) => part.textContent)).toEqual(["○", "Step a", "not run"]);
  });

  it("marks the selected row and leaves one row in the tab order", () => {
    expect(button("a").getAttribute("aria-current")).toBe("step");
    expect(buttons().filter((each) => each.tabIndex === 0)).toEqual([button("a")]);
    model.receive("selected", "c");
    expect(el.querySelectorAll("[aria-current]")).toHaveLength(1);
    expect(button("c").getAttribute("aria-current")).toBe("step");
  });

  it("tells the kernel what was clicked", () => {
    button("b").click();
    expect(model.saved).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ selected: "b" }));
    expect(button("b").getAttribute("aria-current")).toBe("step");
  });

  it("lists a step that stands in two stages twice, and either selects it", () => {
    model.receive("stages", [stage("data", [step("a")]), stage("model", [step("a")])]);
    expect(ids()).toEqual(["data", "a", "model", "a"]);
  });

  it("removes everything, its listeners too, when it is unmounted", () => {
    unmount();
    expect(el.childElementCount).toBe(0);
    expect(model.listenerCount).toBe(0);
  });

  it("draws nothing for a model that has no stages yet", () => {
    model.receive("stages", null);
    expect(buttons()).toEqual([]);
  });
});

describe("the keyboard", () => {
  it("moves focus with the arrow keys and keeps the notebook out of it", () => {
    button("data").focus();
    const event = press("data", "ArrowDown");
    expect(document.activeElement).toBe(button("a"));
    expect(event.defaultPrevented).toBe(true);
    press("a", "End");
    expect(document.activeElement).toBe(button("c"));
    expect(buttons().filter((each) => each.tabIndex === 0)).toEqual([button("c")]);
  });

  it("is first to see its keys, before a listener in the document's capture phase", () => {
    const seen: string[] = [];
    const notebook = (event: Event) => seen.push((event as KeyboardEvent).key);
    document.addEventListener("keydown", notebook, true);
    button("data").focus();
    for (const key of ["ArrowDown", "ArrowUp", "Enter", " ", "s"]) press("data", key);
    document.removeEventListener("keydown", notebook, true);
    expect(seen).toEqual(["s"]);
  });

  it("does not select what it passes", () => {
    press("data", "ArrowDown");
    expect(model.saved).not.toHaveBeenCalled();
  });

  it("leaves shortcuts with a modifier alone", () => {
    button("data").focus();
    expect(press("data", "ArrowDown", { ctrlKey: true }).defaultPrevented).toBe(false);
    expect(document.activeElement).toBe(button("data"));
  });
});

describe("untrusted titles", () => {
  it("stay text", () => {
    const title = '<img src=x onerror="globalThis.hacked = true">';
    model.receive("stages", [{ ...stage(title, [{ ...step("s"), title, state: title }]), title }]);
    expect(el.querySelector("img")).toBeNull();
    expect(button(title).querySelector(".nbdebug-title")?.textContent).toBe(title);
    expect(button("s").dataset.state).toBe("not-run");
    expect("hacked" in globalThis).toBe(false);
  });
});

describe("an update", () => {
  it("changes rows in place and keeps focus", () => {
    const before = button("b");
    before.focus();
    model.receive("stages", [stage("data", [step("a", "clean"), step("b", "found", 2)], "running"), TREE[1]]);
    expect(button("b")).toBe(before);
    expect(document.activeElement).toBe(before);
    expect(before.querySelector(".nbdebug-state")?.textContent).toBe("2 found");
  });

  it("keeps focus when rows before it come and go", () => {
    button("b").focus();
    model.receive("stages", [stage("new", []), stage("data", [step("z"), step("b")])]);
    expect(ids()).toEqual(["new", "data", "z", "b"]);
    expect(document.activeElement).toBe(button("b"));
  });

  it("follows a new order", () => {
    model.receive("stages", [TREE[1], stage("data", [step("b"), step("a")])]);
    expect(ids()).toEqual(["model", "c", "data", "b", "a"]);
  });

  it("hands focus on when the focused row is gone", () => {
    button("c").focus();
    model.receive("stages", [TREE[0]]);
    expect(document.activeElement).toBe(button("a"));
  });
});

describe("a click on a button of the wizard", () => {
  const wizard = () => {
    const whole = document.createElement("div");
    whole.className = "nbdebug-wizard";
    const run = document.createElement("button");
    run.textContent = "Run this step";
    whole.append(el, run);
    document.body.append(whole);
    return run;
  };

  it("is shown at once, is said to wait, and rests when the kernel has heard it", () => {
    vi.useFakeTimers();
    const run = wizard();
    run.click();
    expect(run.getAttribute("aria-busy")).toBe("true");
    expect(run.dataset.waits).toBeUndefined();
    vi.advanceTimersByTime(1000);
    expect(run.dataset.waits).toBe("waits for the running cell");
    expect(el.querySelector(".nbdebug-told")?.textContent).toBe("Run this step waits for the running cell");
    model.receive("heard", 1);
    expect(run.hasAttribute("aria-busy") || run.hasAttribute("data-waits")).toBe(false);
    expect(el.querySelector(".nbdebug-told")?.textContent).toBe("");
    vi.useRealTimers();
  });

  it("is nobody's where it is another wizard's, or the tree was taken down", () => {
    const other = document.createElement("button");
    document.body.append(other);
    const run = wizard();
    other.click();
    unmount();
    run.click();
    expect([other, run].some((each) => each.hasAttribute("aria-busy"))).toBe(false);
  });
});
