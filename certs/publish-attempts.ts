import { SwitchbackError } from "#lib/errors/errors.ts";

/** Conflicts in one turn until the bundle is left to a later one. */
const MAX_CONFLICTS = 3;

/** The writes of the caBundle in one turn: a bundle that was written is not written again, and conflicts are few. */
export class PublishAttempts {
  #error: unknown;
  #isFruitless = false;
  #written: string | undefined;
  #conflicts = 0;

  /** Why no bundle is written any more in this turn; undefined: it may be. */
  get error(): unknown {
    return this.#error;
  }

  /** Something undoes or prevents the writes: the next turn must not begin soon, whatever happens. */
  get isFruitless(): boolean {
    return this.#isFruitless;
  }

  /** Whether `bundle` was written in this turn, and something took it out since. Call before a write. */
  isRepeated(bundle: string | undefined): boolean {
    if (bundle === undefined || bundle !== this.#written) return false;
    this.#giveUp("was written, and is gone");
    return true;
  }

  succeeded(bundle: string | undefined): void {
    this.#written = bundle ?? this.#written;
  }

  /** A write came too late. */
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
    this.#isFruitless = true;
  }
}
