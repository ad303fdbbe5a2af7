import type { RolloutStatus } from "#controller/rollout/report.ts";
import type { FullStatus } from "#controller/status.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import type { Changes, FeedMessage, Summary } from "./messages.ts";

/** Maximum number of entries in a message. A browser parses this many without a visible pause. */
const BATCH = 2_000;

/** The entries of a list that were sent, each with its number, and its JSON for comparison. */
class SentList<T> {
  readonly #keyOf: (entry: T) => string;
  #sent = new Map<string, { readonly id: number; readonly json: string; readonly entry: T }>();
  #nextId = 0;

  constructor(keyOf: (entry: T) => string) {
    this.#keyOf = keyOf;
  }

  /** Takes the current list. @returns what changed, in batches. */
  take(entries: readonly T[]): Changes<T>[] {
    const before = this.#sent;
    this.#sent = new Map();
    const set: [number, T][] = [];
    for (const entry of entries) {
      const key = this.#freeKey(this.#keyOf(entry));
      const json = JSON.stringify(entry);
      const old = before.get(key);
      before.delete(key);
      const id = old?.id ?? this.#nextId++;
      if (old?.json !== json) set.push([id, entry]);
      this.#sent.set(key, { id, json, entry });
    }
    const gone = [...before.values()].map(({ id }) => id);
    return [...batches(set).map((batch) => ({ set: batch })), ...batches(gone).map((batch) => ({ gone: batch }))];
  }

  /** The whole list, in batches. */
  whole(): Changes<T>[] {
    return batches([...this.#sent.values()].map(({ id, entry }) => [id, entry] as const)).map((set) => ({ set }));
  }

  /** A key that is not used yet. An object may claim a name twice, and each claim is an entry. */
  #freeKey(key: string): string {
    let free = key;
    for (let count = 2; this.#sent.has(free); count++) free = `${key} ${count}`;
    return free;
  }
}

/** Turns each status into the messages that bring a page from the previous status to this one. */
export class StatusChanges {
  readonly #names = new SentList<FullStatus["names"][number]>(({ name, from }) =>
    JSON.stringify([name, from.kind, from.namespace, from.name]),
  );
  readonly #workloads = new SentList<RolloutStatus["workloads"][number]>(workloadKey);
  #last: FeedMessage | undefined;

  /** `at`: when the status was read, milliseconds since 1970. */
  take(status: FullStatus, at: number): FeedMessage[] {
    const { names, running, ...rest } = status;
    const { workloads, ...rollout } = running ?? { workloads: [] };
    const summary: Summary = { ...rest, ...(running && { running: rollout as Omit<RolloutStatus, "workloads"> }) };
    this.#last = { type: "summary", at, summary };
    return [
      ...this.#names.take(names).map((changes) => ({ type: "names", ...changes }) as const),
      ...this.#workloads.take(workloads).map((changes) => ({ type: "workloads", ...changes }) as const),
      this.#last,
    ];
  }

  /** The messages that give a new page the last status. */
  whole(): FeedMessage[] {
    if (this.#last === undefined) return [];
    return [
      ...this.#names.whole().map((changes) => ({ type: "names", ...changes }) as const),
      ...this.#workloads.whole().map((changes) => ({ type: "workloads", ...changes }) as const),
      this.#last,
    ];
  }
}

function batches<T>(all: readonly T[]): (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / BATCH) }, (_, index) =>
    all.slice(index * BATCH, (index + 1) * BATCH),
  );
}
