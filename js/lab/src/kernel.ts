// How the extension asks the kernel: an expression that is evaluated beside the user's code. No cell runs, nothing is
// assigned, and the history does not grow.

import type { Kernel } from "@jupyterlab/services";

export type Answer = Record<string, unknown>;

/** What the kernel says instead of an answer, to be shown to the user. */
export class Refusal extends Error {}

/** Writes the expression that asks; a JSON text in quotes is a text of Python, too. */
export function expression(question: string, details: object): string {
  const [name, given] = [question, JSON.stringify(details)].map((text) => JSON.stringify(text));
  return `__import__("nbdebug.integrations.lab", fromlist=["answer"]).answer(${name}, ${given})`;
}

export async function ask(
  kernel: Kernel.IKernelConnection,
  question: string,
  details: object = {},
): Promise<Answer> {
  const reply = await kernel.requestExecute({
    code: "",
    silent: true,
    store_history: false,
    stop_on_error: false,
    user_expressions: { nbdebug: expression(question, details) },
  }).done;
  return read(reply.content);
}

/** Takes the answer out of the reply to an execute request; whatever is wrong with it is a refusal. */
export function read(content: object): Answer {
  const { user_expressions: expressions } = content as { user_expressions?: Record<string, unknown> };
  const value = (expressions?.nbdebug ?? {}) as {
    data?: Record<string, unknown>;
    ename?: string;
    evalue?: string;
  };
  const answer = value.data?.["application/json"] as Answer | undefined;
  if (answer === undefined) throw new Refusal(reason(value.ename, value.evalue));
  if (typeof answer.error === "string") throw new Refusal(answer.error);
  return answer;
}

function reason(ename: string | undefined, evalue: string | undefined): string {
  if (ename === "ModuleNotFoundError")
    return "nbdebug is not installed in the environment of this kernel: pip install nbdebug-torch";
  return ename === undefined ? "The kernel gave no answer." : `${ename}: ${evalue ?? ""}`;
}
