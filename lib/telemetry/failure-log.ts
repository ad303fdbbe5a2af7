import type { Logger } from "./log.ts";

/**
 * Logs that something fails: once, again when it fails for another reason, and when it works again. Each retry says
 * nothing more.
 */
export class FailureLog {
  readonly #log: Logger;
  readonly #level: "warn" | "error";
  /** By what fails: why, and the fields of its line. */
  readonly #failing = new Map<string, { readonly text: string; readonly fields: object }>();

  constructor(log: Logger, level: "warn" | "error" = "warn") {
    this.#log = log;
    this.#level = level;
  }

  /** `fields`: of its line, the code among them. */
  failed(what: string, fields: object, text: string): void {
    if (this.#failing.get(what)?.text === text) return;
    this.#failing.set(what, { text, fields });
    this.#log[this.#level](fields, text);
  }

  worked(what: string): void {
    const failure = this.#failing.get(what);
    if (failure === undefined) return;
    this.#failing.delete(what);
    this.#log.info(failure.fields, "it works again");
  }
}
