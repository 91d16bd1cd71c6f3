// The JupyterLab extension of nbdebug. Everything that it adds is held in one set, so that nothing stays when it goes.

import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { IStatusBar } from "@jupyterlab/statusbar";
import { DisposableSet } from "@lumino/disposable";
import { House } from "./house";

const ID = "nbdebug:plugin";
let held = new DisposableSet();

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description:
    "Troubleshoots neural networks from the notebook: wizard, live watch, errors explained, reports.",
  autoStart: true,
  requires: [INotebookTracker],
  // A shell that shares no status bar, as that of Notebook 7, gives no token for it either.
  optional: [ICommandPalette, ISettingRegistry, ILayoutRestorer, IStatusBar].filter(Boolean),
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null,
    restorer: ILayoutRestorer | null,
    statusBar: IStatusBar | null = null,
  ): void => {
    held = new DisposableSet();
    const house = new House(app, notebooks, statusBar, held);
    house.furnish(palette, restorer);
    if (registry !== null)
      registry
        .load(ID)
        .then(house.follow)
        .catch(() => {}); // without settings the defaults hold
  },
  deactivate: (): void => held.dispose(),
};

export default plugin;
