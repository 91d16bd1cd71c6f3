export function labStyle(path?: string): Promise<string>;
export function buildLab(): Promise<{ path: string; size: number }>;
