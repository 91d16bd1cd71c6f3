import { describe, expect, it } from "vitest";
import { expression, Refusal, read } from "../src/kernel";

const reply = (nbdebug: object): object => ({ status: "ok", user_expressions: { nbdebug } });

describe("the kernel's answers", () => {
  it("asks by an expression without a statement, with its details as a text", () => {
    expect(expression("export", { path: 'a"b.html' })).toBe(
      '__import__("nbdebug.integrations.lab", fromlist=["answer"]).answer("export", "{\\"path\\":\\"a\\\\\\"b.html\\"}")',
    );
  });

  it("takes the JSON out of the reply", () => {
    expect(read(reply({ status: "ok", data: { "application/json": { model: [] } } }))).toEqual({ model: [] });
  });

  it("turns what went wrong into words", () => {
    const error = (ename: string, evalue: string): object => reply({ status: "error", ename, evalue });
    expect(() => read(error("ModuleNotFoundError", "No module named 'nbdebug'"))).toThrow(
      "pip install nbdebug-torch",
    );
    expect(() => read(error("ValueError", "odd"))).toThrow("ValueError: odd");
    expect(() => read({ status: "aborted" })).toThrow(Refusal);
    expect(() => read(reply({ data: { "application/json": { error: "no report yet" } } }))).toThrow(
      "no report yet",
    );
  });
});
