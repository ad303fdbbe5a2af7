import { SwitchbackError } from "#lib/errors/errors.ts";

/** After this many conflicts, a later turn writes the bundle. */
const MAX_CONFLICTS = 3;

/** The writes of the caBundle in one turn. Limits conflicts, and prevents writing the same bundle twice. */
export class PublishAttempts {
  #error: unknown;
  #isObstructed = false;
  #written: string | undefined;
  #conflicts = 0;

  /** Why this turn must not write the bundle again. Undefined if it may. */
  get error(): unknown {
    return this.#error;
  }

  /** Something reverts or prevents the writes. The next turn must not begin soon, even after events. */
  get isObstructed(): boolean {
    return this.#isObstructed;
  }

  /** Whether this turn wrote `bundle`, and something removed it since. Call before a write. */
  isRepeated(bundle: string | undefined): boolean {
    if (bundle === undefined || bundle !== this.#written) return false;
    this.#giveUp("was written and then removed");
    return true;
  }

  succeeded(bundle: string | undefined): void {
    this.#written = bundle ?? this.#written;
  }

  /** Another writer changed the object before this write. */
  conflicted(bundle: string | undefined, cause: unknown): void {
    if (bundle === undefined) return;
    this.#conflicts += 1;
    if (this.#conflicts >= MAX_CONFLICTS) this.#giveUp("could not be written", cause);
  }

  failed(error: unknown): void {
    this.#error = error;
  }

  #giveUp(what: string, cause?: unknown): void {
    const text = `the caBundle ${what}: another writer or an admission plugin changes the webhook configuration`;
    this.#error = new SwitchbackError("kube-status", text, { cause });
    this.#isObstructed = true;
  }
}
