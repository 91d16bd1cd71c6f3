// What the wizard's plain buttons cannot do by themselves: copy a fix, put it into a new cell, say which of them is
// chosen, and tell a screen reader what runs. The text to copy is the tooltip of its
// button; a whole report is too long for one, and is hidden beside its button.

const INSERT = "nbdebug:insert-cell";
const GO_TO = "nbdebug:go-to-line";
const ACTS = ".nbdebug-copy, .nbdebug-insert, .nbdebug-goto";

export class Helper {
  private readonly watcher = new MutationObserver(() => this.name());
  private timer = 0;

  /** Helps the wizard that `inside` is, or will be, a part of. */
  constructor(private readonly inside: HTMLElement) {
    document.addEventListener("click", this.clicked, true);
    this.timer = window.setTimeout(this.begin, 0);
  }

  close(): void {
    window.clearTimeout(this.timer);
    this.watcher.disconnect();
    document.removeEventListener("click", this.clicked, true);
  }

  private readonly begin = (): void => {
    const wizard = this.inside.closest<HTMLElement>(".nbdebug-wizard");
    if (wizard === null) return;
    this.watcher.observe(wizard, { subtree: true, childList: true, attributeFilter: ["class"] });
    this.name();
  };

  /** Says in attributes what the classes of ipywidgets only show. */
  private name(): void {
    const wizard = this.inside.closest<HTMLElement>(".nbdebug-wizard");
    if (wizard === null) return;
    for (const button of wizard.querySelectorAll(".nbdebug-symptoms button, .nbdebug-answers button"))
      set(button, "aria-pressed", String(button.classList.contains("mod-active")));
    for (const button of wizard.querySelectorAll(".nbdebug-tab"))
      set(button, "aria-pressed", String(button.classList.contains("nbdebug-on")));
    for (const line of wizard.querySelectorAll(".nbdebug-told .widget-html")) {
      set(line, "role", "status");
      set(line, "aria-live", "polite");
    }
    const canInsert = document.documentElement.dataset.nbdebugInsert === "true";
    for (const button of wizard.querySelectorAll<HTMLElement>(".nbdebug-insert, .nbdebug-goto"))
      button.hidden = !canInsert;
  }

  private readonly clicked = (event: Event): void => {
    const button = (event.target as HTMLElement).closest?.<HTMLButtonElement>(ACTS);
    if (!button?.closest(".nbdebug-wizard")?.contains(this.inside)) return;
    if (button.classList.contains("nbdebug-goto")) {
      const { text = "", line = "0" } = button.dataset;
      document.dispatchEvent(new CustomEvent(GO_TO, { detail: { text, line: Number(line), from: button } }));
      return;
    }
    const code = button.classList.contains("nbdebug-assistant")
      ? (button.parentElement?.querySelector(".nbdebug-copied")?.textContent ?? "")
      : button.title;
    if (button.classList.contains("nbdebug-insert")) {
      document.dispatchEvent(new CustomEvent(INSERT, { detail: { code, from: button } }));
      return;
    }
    copy(code).then(
      () => said(button, "Copied"),
      () => said(button, "Select the code and copy it"),
    );
  };
}

function set(node: Element, name: string, value: string): void {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Copies a text; where the page is not allowed to, as on a server without https, in the old way. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("The browser does not copy.");
}

function said(button: HTMLElement, text: string): void {
  button.dataset.said = text;
  window.setTimeout(() => delete button.dataset.said, 2000);
}
