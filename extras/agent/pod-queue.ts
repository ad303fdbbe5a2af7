/** A pod in one class took about twice as long as one in the class before, from 1 ms. */
const CLASSES = 6;

/**
 * The uids of the pods that a round has to deal with, each once. Those that took little CPU time when they were
 * last dealt with come first, so that many large hosts files, which containers write, do not delay the files of
 * others.
 */
export class PodQueue {
  readonly #classes = Array.from({ length: CLASSES }, () => new Set<string>());

  get size(): number {
    return this.#classes.reduce((sum, { size }) => sum + size, 0);
  }

  /** `costMs`: the CPU time that the pod took, in milliseconds. */
  add(uid: string, costMs: number): void {
    const index = Math.min(CLASSES - 1, Math.ceil(Math.log2(Math.max(1, costMs))));
    if (this.#classes.every((uids) => !uids.has(uid))) this.#classes[index]?.add(uid);
  }

  /** Removes and returns the next one; undefined if there is none. */
  take(): string | undefined {
    for (const uids of this.#classes) {
      for (const uid of uids) {
        uids.delete(uid);
        return uid;
      }
    }
    return undefined;
  }

  clear(): void {
    for (const uids of this.#classes) uids.clear();
  }
}
