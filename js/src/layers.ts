// What is known about one module of a model, and how it is said.

import { short } from "./dom";
import { num } from "./numbers";

export interface Layer {
  path: string;
  name: string;
  module: string;
  depth: number;
  leaf: boolean;
  inputs: string[];
  output: string;
  parameters: number;
  trainable: number;
  ms: unknown;
  flops: number | null;
  bytes: number;
  weights: number;
  calls: number;
  order?: number; // among the calls of innermost modules; less than 0 for the others
  sources?: string[];
  severity: string;
  findings: string[];
}

export const SIGNS: Record<string, string> = { bug: "✕ bug", suspect: "▲ suspect", note: "● note" };

export function spoken(layer: Layer): string {
  const health = layer.severity ? `, ${layer.severity}` : "";
  return `${layer.path}, ${layer.module}, output ${layer.output}, ${layer.parameters} parameters${health}`;
}

export function time(layer: Layer): string {
  return `${short(num(layer.ms))} ms`;
}
