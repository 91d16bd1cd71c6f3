import { LabIcon } from "@jupyterlab/ui-components";

const drawing = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
<g class="jp-icon3" fill="none" stroke="#616161" stroke-width="2" stroke-linecap="round">
<path d="M8 5l2 2M16 5l-2 2M4 13h4M16 13h4M5 20l3.5-3M19 20l-3.5-3M5.5 7.5L8.5 10M18.500 7.500L15.500 10"/>
<rect x="8" y="7" width="8" height="13" rx="4"/><path d="M12 11v9"/></g></svg>`;

export const bugIcon = new LabIcon({ name: "nbdebug:bug", svgstr: drawing });
