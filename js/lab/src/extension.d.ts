// What the build puts in for the bundled extension and for style sheets.

declare module "nbdebug:extension" {
  export const needs: readonly string[];
  export function make(require: (name: string) => unknown, module: { exports: unknown }): void;
}

declare module "*.css" {
  const text: string;
  export default text;
}
