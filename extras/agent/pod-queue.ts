/**
 * Number of classes. The first class has pods that took up to 1 ms. Each class has twice the limit of the one before,
 * and the last has no limit.
 */
const CLASSES = 6;

/**
 * The uids of the pods that a round has to update, each once. Pods whose last update took little CPU time come first.
 * So many large hosts files, which containers write, do not delay the files of others.
 */
export class PodQueue {
  readonly #classes = Array.from({ length: CLASSES }, () => new Set<string>());

  get size(): number {
    return this.#classes.reduce((sum, { size }) => sum + size, 0);
  }

  /** `costMs`: CPU time of the pod's last update, in milliseconds. */
  add(uid: string, costMs: number): void {
    const index = Math.min(CLASSES - 1, Math.ceil(Math.log2(Math.max(1, costMs))));
    if (this.#classes.every((uids) => !uids.has(uid))) this.#classes[index]?.add(uid);
  }

  /** Removes and returns the next uid. Undefined if the queue is empty. */
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
