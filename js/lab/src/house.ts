// What the parts of the extension share: the settings, the panel, and the training that is watched.

import type { ILayoutRestorer, JupyterFrontEnd } from "@jupyterlab/application";
import type { ICommandPalette } from "@jupyterlab/apputils";
import type { INotebookTracker, NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import type { ISettingRegistry } from "@jupyterlab/settingregistry";
import type { IStatusBar } from "@jupyterlab/statusbar";
import { DisposableDelegate, type DisposableSet } from "@lumino/disposable";
import { addCommands } from "./commands";
import { Connections, type Told } from "./connections";
import { Insertions } from "./insert";
import { Offers } from "./offer";
import { SidePanel } from "./panel";
import { DEFAULTS, type Settings, toSettings } from "./settings";
import { toWatch, type Watch, WatchLine } from "./watch";

export class House {
  private readonly connections: Connections;
  private readonly panel: SidePanel;
  private readonly line: WatchLine;
  private given: Settings = DEFAULTS;
  private running: NotebookPanel | null = null;

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly notebooks: INotebookTracker,
    private readonly statusBar: IStatusBar | null,
    private readonly held: DisposableSet,
  ) {
    this.connections = new Connections(notebooks);
    this.panel = new SidePanel(this.stop);
    this.line = new WatchLine(this.stop);
    this.connections.told.connect((_, told) => this.tell(told));
    for (const part of [this.connections, this.panel, this.line]) held.add(part);
    held.add(new Insertions(notebooks));
    held.add(new Offers(notebooks, () => this.given.offerExplanations));
  }

  /** Adds what is seen: the commands, the panel and the status. */
  furnish(palette: ICommandPalette | null, restorer: ILayoutRestorer | null): void {
    addCommands(this.app, this.notebooks, palette, this, this.held);
    this.app.shell.add(this.panel, "right", { rank: 900 });
    restorer?.add(this.panel, this.panel.id);
    if (this.statusBar === null) return;
    const item = { item: this.line, align: "left" as const, rank: 50, isActive: () => this.running !== null };
    this.held.add(this.statusBar.registerStatusItem("nbdebug:watch", item));
  }

  /** Follows the settings from now on. */
  readonly follow = (settings: ISettingRegistry.ISettings): void => {
    const read = (): void => {
      this.given = toSettings(settings.composite);
    };
    read();
    settings.changed.connect(read);
    this.held.add(new DisposableDelegate(() => settings.changed.disconnect(read)));
  };

  settings(): Settings {
    return this.given;
  }

  open(panel: NotebookPanel, code: string): void {
    this.connections.connect(panel);
    this.panel.open(panel, code);
    this.showPanel();
  }

  showPanel(): void {
    this.app.shell.activateById(this.panel.id);
  }

  watched(): Kernel.IKernelConnection | null {
    return this.running?.sessionContext.session?.kernel ?? null;
  }

  private readonly stop = (): void => {
    void this.watched()?.interrupt();
  };

  private tell(told: Told): void {
    this.panel.tell(told);
    if (told.message.watch !== undefined) this.showWatch(told.panel, toWatch(told.message.watch));
  }

  private showWatch(panel: NotebookPanel, watch: Watch): void {
    if (watch.isRunning) this.running = panel;
    else if (this.running === panel) this.running = null;
    this.line.tell(watch);
    this.app.commands.notifyCommandChanged("nbdebug:stop");
    if (this.statusBar === null && watch.isRunning && this.line.parent === null) this.place(panel);
  }

  /** Shows the line in the toolbar of the notebook that trains, for a shell without a status bar. */
  private place({ toolbar }: NotebookPanel): void {
    const name = "nbdebug-watch";
    if (!toolbar.insertAfter("nbdebug-troubleshoot", name, this.line)) toolbar.addItem(name, this.line);
  }
}
