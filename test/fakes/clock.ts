import { setImmediate as turn } from "node:timers/promises";
import type { Clock } from "#proxy/clock.ts";

/** A clock that moves only in `pass`. */
export class FakeClock implements Clock {
  #now = 1_000_000_000_000;
  readonly #tasks = new Set<{ at: number; run: () => void }>();

  now(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): () => void {
    const task = { at: this.#now + ms, run };
    this.#tasks.add(task);
    return () => this.#tasks.delete(task);
  }

  /** Tasks that have not run yet. */
  get pending(): number {
    return this.#tasks.size;
  }

  /** Runs the tasks that are due within the next `ms`, in order, and lets promises settle after each. */
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    await turn();
    for (;;) {
      const [next] = [...this.#tasks].filter(({ at }) => at <= end).sort((one, other) => one.at - other.at);
      if (next === undefined) break;
      this.#tasks.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.run();
      await turn();
    }
    this.#now = end;
  }
}

/** A logger that keeps its lines. */
export class LineLog {
  readonly lines: { level: string; fields: object; message: string }[] = [];
  readonly debug = this.#at("debug");
  readonly info = this.#at("info");
  readonly warn = this.#at("warn");
  readonly error = this.#at("error");

  #at(level: string): (fields: object, message: string) => void {
    return (fields, message) => void this.lines.push({ level, fields, message });
  }

  /** The messages of all lines above debug level. */
  get messages(): string[] {
    return this.lines.filter(({ level }) => level !== "debug").map(({ message }) => message);
  }
}
