import type { Reason } from "#hostmap/types.ts";

const STEADY_MS = 60_000;
const UNSTABLE: Reason = {
  code: "target-unstable",
  text: "its target changed more than once within a minute; it stays until a minute has passed without a change",
};

/**
 * Two controllers that write one status would move a name all the time. So if the target that an object wants for a
 * published name changes twice within a minute, the name keeps its target until a minute has passed without a change.
 * Times are milliseconds of any monotonic clock.
 */
export class SteadyTargets {
  /**
   * The last change of the target that a name should get, by name, in the order of their times. `isRepeated`: it came
   * within `STEADY_MS` of the change before.
   */
  readonly #moves = new Map<string, { readonly target: string; readonly at: number; readonly isRepeated: boolean }>();

  /** Why a name stays at its present target for now. Undefined: it gets the wanted one. */
  check(name: string, present: string, wanted: string, now: number): Reason | undefined {
    const last = this.#moves.get(name);
    if (wanted !== (last?.target ?? present)) {
      this.#moves.delete(name);
      this.#moves.set(name, { target: wanted, at: now, isRepeated: last !== undefined });
    }
    return this.#moves.get(name)?.isRepeated ? UNSTABLE : undefined;
  }

  /** The object claims the name no more, so nobody moves it. */
  forget(name: string): void {
    this.#moves.delete(name);
  }

  /** The names whose last change is a minute ago. They may move again. */
  takeDue(now: number): string[] {
    const due = [...this.#moves].filter(([, { at }]) => now - at >= STEADY_MS).map(([name]) => name);
    for (const name of due) this.#moves.delete(name);
    return due;
  }

  /** When `takeDue` must be called again. */
  nextDeadline(): number | undefined {
    const [first] = this.#moves.values();
    return first && first.at + STEADY_MS;
  }
}
