// The side panel: the live watch, the findings with their lines, and the wizard. It stays while the notebook scrolls.

import type { NotebookPanel } from "@jupyterlab/notebook";
import { OutputAreaModel, SimplifiedOutputArea } from "@jupyterlab/outputarea";
import { Panel, Widget } from "@lumino/widgets";
import { h } from "../../src/dom";
import { asList, asObject } from "../../src/frame";
import curveView from "../../src/views/curve";
import type { Told } from "./connections";
import { lensIcon } from "./icon";
import { type Finding, jump, locate, sources, toFinding } from "./links";
import { LiveModel } from "./live-model";
import { toWatch, WatchLine } from "./watch";

type Source = "wizard" | "watch";

export class SidePanel extends Panel {
  private readonly line: WatchLine;
  private readonly curves = new Widget();
  private readonly list = h("ul", { class: "nbdebug-findings", "aria-label": "Findings" });
  private readonly hint = h("p", { class: "nbdebug-hint" });
  private readonly model = new LiveModel();
  private readonly found: Record<Source, { panel: NotebookPanel; findings: Finding[] } | null> = {
    wizard: null,
    watch: null,
  };
  private wizard: SimplifiedOutputArea | null = null;
  private undraw: (() => void) | null = null;

  constructor(stop: () => void) {
    super();
    this.id = "nbdebug-panel";
    this.addClass("nbdebug-panel");
    this.title.icon = lensIcon;
    this.title.caption = "nbdebug";
    this.line = new WatchLine(stop);
    const list = new Widget({ node: h("div", {}, this.hint, this.list) });
    for (const part of [this.line, this.curves, list]) this.addWidget(part);
    this.drawFindings();
  }

  override dispose(): void {
    this.undraw?.();
    super.dispose();
  }

  /** Hears from a kernel. */
  tell({ panel, message }: Told): void {
    if (message.watch !== undefined) this.showWatch(panel, asObject(message.watch));
    if (message.findings !== undefined) this.showFindings("wizard", panel, message.findings);
  }

  /** Shows the wizard that this code opens in the kernel of a notebook, in place of an earlier one. */
  open(panel: NotebookPanel, code: string): void {
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel) return;
    this.wizard?.dispose();
    const { rendermime } = panel.content;
    const model = new OutputAreaModel({ trusted: true });
    const area = new SimplifiedOutputArea({ model, rendermime });
    area.disposed.connect(model.dispose, model);
    area.addClass("nbdebug-panel-wizard");
    area.future = kernel.requestExecute({
      code,
      store_history: false,
      stop_on_error: false,
      allow_stdin: false,
    });
    this.wizard = area;
    this.addWidget(area);
    panel.disposed.connect(area.dispose, area); // the area's own end takes this listener off
  }

  private showWatch(panel: NotebookPanel, data: Record<string, unknown>): void {
    this.line.tell(toWatch(data));
    if (data.curves === undefined) return;
    this.model.receive(data);
    if (this.undraw === null) {
      const props = { model: this.model, el: this.curves.node } as unknown as Parameters<
        typeof curveView.render
      >[0];
      this.undraw = curveView.render(props);
    }
    this.showFindings("watch", panel, data.findings);
  }

  private showFindings(source: Source, panel: NotebookPanel, findings: unknown): void {
    this.found[source] = { panel, findings: asList(findings).map(toFinding) };
    this.drawFindings();
  }

  private drawFindings(): void {
    const known = Object.values(this.found).filter((one) => one !== null);
    const rows = known.flatMap(({ panel, findings }) => findings.map((finding) => row(panel, finding)));
    this.list.replaceChildren(...rows);
    this.hint.hidden = rows.length > 0 || known.length > 0;
    this.hint.textContent =
      "Troubleshoot opens the wizard here. A training in nbdebug.watch shows its curves here while it runs.";
  }
}

function row(panel: NotebookPanel, finding: Finding): HTMLElement {
  const title = `${finding.severity}: ${finding.check}${finding.where ? ` at ${finding.where}` : ""}`;
  const spot = panel.isDisposed ? null : locate(sources(panel), finding);
  const go = (): void => {
    const now = panel.isDisposed ? null : locate(sources(panel), finding);
    if (now !== null) void jump(panel, now);
  };
  const head =
    spot === null
      ? h("strong", {}, title)
      : h("button", { type: "button", title: "Show the line", on: { click: go } }, title);
  const place =
    finding.file !== "" && finding.line !== null ? ` (${finding.file}, line ${finding.line})` : "";
  return h("li", { class: `nbdebug-${finding.severity}` }, head, h("p", {}, `${finding.says}${place}`));
}
