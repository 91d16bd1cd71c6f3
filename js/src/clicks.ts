// Answers a click on any button of the wizard at once, before the kernel has heard of it: a kernel that runs a cell may
// hear of clicks only when the cell has ended, and until then nothing else would show that the click was taken.

const PATIENCE = 300; // milliseconds before it is said that the kernel lets wait
const OWN = ".nbdebug-stage-tree, .nbdebug-explored, .nbdebug-copy, .nbdebug-insert, .nbdebug-goto"; // these answer by themselves
const WAITS = "waits for the running cell";

export class Clicks {
  private readonly told = document.createElement("span");
  private readonly asked = new Set<HTMLElement>();
  private timer = 0;

  /** Watches the buttons of the wizard that `inside` is a part of. */
  constructor(private readonly inside: HTMLElement) {
    this.told.className = "nbdebug-told";
    this.told.setAttribute("role", "status");
    inside.append(this.told);
    document.addEventListener("click", this.clicked, true);
  }

  /** The kernel has heard of everything that was asked. */
  readonly heard = (): void => {
    window.clearTimeout(this.timer);
    for (const button of this.asked) {
      button.removeAttribute("aria-busy");
      delete button.dataset.waits;
    }
    this.asked.clear();
    this.told.textContent = "";
  };

  close(): void {
    this.heard();
    document.removeEventListener("click", this.clicked, true);
  }

  private readonly clicked = (event: Event): void => {
    const button = (event.target as HTMLElement).closest?.<HTMLButtonElement>("button");
    if (!button || button.disabled || button.closest(OWN)) return;
    if (!button.closest(".nbdebug-wizard")?.contains(this.inside)) return;
    button.setAttribute("aria-busy", "true");
    this.asked.add(button);
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(this.wait, PATIENCE);
  };

  private readonly wait = (): void => {
    for (const button of this.asked) button.dataset.waits = WAITS;
    this.told.textContent = [...this.asked].map((button) => `${button.textContent} ${WAITS}`).join("; ");
  };
}
