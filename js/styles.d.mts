import type { Plugin } from "esbuild";

export function stylesOfViews(): Promise<Record<string, string>>;
export const scopedViews: Plugin;
