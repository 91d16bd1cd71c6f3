// The commands of the extension, for the toolbar, the palette and the menu.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Dialog, type ICommandPalette, showDialog } from "@jupyterlab/apputils";
import type { CodeCell } from "@jupyterlab/cells";
import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";
import type { DisposableSet } from "@lumino/disposable";
import { openingCode, wizardCell } from "./code";
import { lensIcon } from "./icon";
import { ask } from "./kernel";
import { explain, hasFailed } from "./offer";
import { missing, pick, toCandidates } from "./picker";
import { pickReport, toReports } from "./report";
import { type Settings, wizardOptions } from "./settings";

/** What the commands need of the rest of the extension. */
export interface Needs {
  settings(): Settings;
  /** Opens the panel and shows what the code shows. */
  open(panel: NotebookPanel, code: string): void;
  showPanel(): void;
  /** Gives the kernel whose training is watched. */
  watched(): Kernel.IKernelConnection | null;
}

type Act = (panel: NotebookPanel, kernel: Kernel.IKernelConnection) => Promise<void>;

export function addCommands(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker,
  palette: ICommandPalette | null,
  house: Needs,
  held: DisposableSet,
): void {
  const add = (
    name: string,
    label: string,
    execute: () => unknown,
    isEnabled: () => boolean,
    caption = label,
  ): void => {
    const command = `nbdebug:${name}`;
    held.add(app.commands.addCommand(command, { label, caption, icon: lensIcon, execute, isEnabled }));
    if (palette !== null) held.add(palette.addItem({ command, category: "nbdebug" }));
  };
  const inNotebook = (act: Act) => () => withKernel(notebooks.currentWidget, act);
  const hasNotebook = (): boolean => notebooks.currentWidget !== null;
  const troubleshooting = inNotebook((panel, kernel) => troubleshoot(panel, kernel, house));
  add("troubleshoot", "Troubleshoot", troubleshooting, hasNotebook, "Troubleshoot the network with nbdebug");
  add(
    "open-panel",
    "Show the nbdebug Panel",
    () => house.showPanel(),
    () => true,
  );
  add("explain-error", "Explain the Last Error", inNotebook(explainHere), hasNotebook);
  add(
    "stop",
    "Stop the Watched Training",
    () => house.watched()?.interrupt(),
    () => house.watched() !== null,
  );
  const exporting = inNotebook((_, kernel) => exportReport(kernel, house.settings()));
  add("export-report", "Export Report…", exporting, hasNotebook);
}

/** Does something with the kernel of a notebook, and shows what goes wrong. */
async function withKernel(panel: NotebookPanel | null, act: Act): Promise<void> {
  const kernel = panel?.sessionContext.session?.kernel;
  if (panel === null) return;
  try {
    if (kernel) await act(panel, kernel);
    else await say("This notebook has no kernel. Start one, and run the cells that make the model.");
  } catch (error) {
    await say(error instanceof Error ? error.message : String(error));
  }
}

async function say(body: string): Promise<void> {
  await showDialog({ title: "nbdebug", body, buttons: [Dialog.okButton()] });
}

async function troubleshoot(
  panel: NotebookPanel,
  kernel: Kernel.IKernelConnection,
  house: Needs,
): Promise<void> {
  const candidates = toCandidates(await ask(kernel, "candidates"));
  const lacking = missing(candidates);
  if (lacking !== "") return say(lacking);
  const choice = await pick(candidates);
  if (choice === null) return;
  const options = wizardOptions(house.settings());
  if (choice.place === "beside") return house.open(panel, openingCode(choice.picked, options));
  NotebookActions.insertBelow(panel.content);
  panel.content.activeCell?.model.sharedModel.setSource(wizardCell(choice.picked, options));
  await NotebookActions.run(panel.content, panel.sessionContext);
}

async function explainHere(panel: NotebookPanel, kernel: Kernel.IKernelConnection): Promise<void> {
  const failed = panel.content.widgets.filter(hasFailed) as CodeCell[];
  const number = (cell: CodeCell): number => cell.model.executionCount ?? 0;
  const [last] = failed.sort((one, other) => number(other) - number(one));
  if (last === undefined) return say("There is no cell that failed in this notebook.");
  await explain(kernel, last);
}

async function exportReport(kernel: Kernel.IKernelConnection, settings: Settings): Promise<void> {
  const reports = toReports(await ask(kernel, "reports"));
  if (reports.length === 0)
    return say(
      "There is no report yet. Run a step of the wizard, nbdebug.diagnose(model, loader) or a watched training.",
    );
  const choice = await pickReport(reports, settings.reportPath);
  if (choice === null) return;
  const { path } = await ask(kernel, "export", { ...choice, include_samples: settings.includeSamples });
  await say(`Written: ${String(path)}`);
}
