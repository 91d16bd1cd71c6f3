// The JupyterLab extension of nbdebug. Everything that it adds is held in one set, so that nothing stays when it goes.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { DisposableSet } from "@lumino/disposable";
import { addCommands } from "./commands";

let held = new DisposableSet();

const plugin: JupyterFrontEndPlugin<void> = {
  id: "nbdebug:plugin",
  description:
    "Troubleshoots neural networks from the notebook: wizard, live watch, errors explained, reports.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette],
  activate: (app: JupyterFrontEnd, notebooks: INotebookTracker, palette: ICommandPalette | null): void => {
    held = new DisposableSet();
    addCommands(app, notebooks, palette, held);
  },
  deactivate: (): void => held.dispose(),
};

export default plugin;
