import { LabIcon } from "@jupyterlab/ui-components";

// A small network under a lens; a bug is what JupyterLab's own debugger shows.
const drawing = `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24">
<g class="jp-icon3" fill-opacity="0" stroke="#616161" stroke-width="2" stroke-linecap="round">
<circle cx="10" cy="10" r="8"/><path d="M16 16l6 6"/><path d="M6.500 7L13.500 10L6.500 13" stroke-width="1.500"/></g>
<g class="jp-icon3" fill="#616161"><circle cx="6.500" cy="7" r="2"/><circle cx="6.500" cy="13" r="2"/>
<circle cx="13.500" cy="10" r="2"/></g></svg>`;

export const lensIcon = new LabIcon({ name: "nbdebug:lens", svgstr: drawing });
