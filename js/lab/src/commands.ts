// The commands of the extension, for the toolbar, the palette and the menu.

import type { JupyterFrontEnd } from "@jupyterlab/application";
import { Dialog, type ICommandPalette, showDialog } from "@jupyterlab/apputils";
import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { DisposableSet } from "@lumino/disposable";
import { wizardCell } from "./code";
import { bugIcon } from "./icon";
import { ask } from "./kernel";
import { missing, pick, toCandidates } from "./picker";

export const TROUBLESHOOT = "nbdebug:troubleshoot";

export function addCommands(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker,
  palette: ICommandPalette | null,
  held: DisposableSet,
): void {
  const add = (
    command: string,
    label: string,
    caption: string,
    act: (panel: NotebookPanel) => Promise<void>,
  ): void => {
    const execute = async (): Promise<void> => {
      const panel = notebooks.currentWidget;
      if (panel !== null) await spoken(() => act(panel));
    };
    const isEnabled = (): boolean => notebooks.currentWidget !== null;
    held.add(app.commands.addCommand(command, { label, caption, icon: bugIcon, execute, isEnabled }));
    if (palette !== null) held.add(palette.addItem({ command, category: "nbdebug" }));
  };
  add(TROUBLESHOOT, "Troubleshoot", "Troubleshoot the network with nbdebug", troubleshoot);
}

/** Does something and shows what goes wrong. */
async function spoken(act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    await say(error instanceof Error ? error.message : String(error));
  }
}

function say(body: string): Promise<unknown> {
  return showDialog({ title: "nbdebug", body, buttons: [Dialog.okButton()] });
}

async function troubleshoot(panel: NotebookPanel): Promise<void> {
  const kernel = panel.sessionContext.session?.kernel;
  if (!kernel)
    return void (await say("This notebook has no kernel. Start one, and run the cells that make the model."));
  const candidates = toCandidates(await ask(kernel, "candidates"));
  const lacking = missing(candidates);
  if (lacking !== "") return void (await say(lacking));
  const choice = await pick(candidates);
  if (choice === null) return;
  NotebookActions.insertBelow(panel.content);
  panel.content.activeCell?.model.sharedModel.setSource(wizardCell(choice.picked));
  await NotebookActions.run(panel.content, panel.sessionContext);
}
