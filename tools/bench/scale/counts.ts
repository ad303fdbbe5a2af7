/** What one component did with one resource, since the counts were last taken. */
export interface Count {
  readonly component: string;
  readonly verb: string;
  readonly resource: string;
  requests: number;
  /** Bytes of the answers' bodies, JSON without compression; without HTTP and TLS around them. */
  bytes: number;
  /** Bytes of the requests' bodies. */
  sent: number;
  /** Answers of 400 and more. */
  refused: number;
  /** The writes of a leader that were taken, in turn, and whether somebody reads what was written. */
  written: Array<{ readonly url: string; readonly isRead: boolean }>;
  /** Events of watches, bookmarks left out. */
  events: number;
}

/** Counts requests and bytes by component, verb and resource. */
export class Counts {
  #all = new Map<string, Count>();

  of(component: string, verb: string, resource: string): Count {
    const key = `${component} ${verb} ${resource}`;
    const known = this.#all.get(key);
    if (known !== undefined) return known;
    const count = { component, verb, resource, requests: 0, bytes: 0, sent: 0, refused: 0, written: [], events: 0 };
    this.#all.set(key, count);
    return count;
  }

  /** Bytes of all answers that were not taken yet, those of watches left out: a watch may never be at rest. */
  get bytes(): number {
    return [...this.#all.values()].reduce((sum, { verb, bytes }) => sum + (verb === "watch" ? 0 : bytes), 0);
  }

  /** The counts so far. They begin at zero again, also those of watches that go on. */
  take(): Count[] {
    const taken = [...this.#all.values()].map((count) => ({ ...count }));
    for (const count of this.#all.values()) {
      Object.assign(count, { requests: 0, bytes: 0, sent: 0, refused: 0, written: [], events: 0 });
    }
    return taken.filter(({ requests, bytes }) => requests > 0 || bytes > 0);
  }
}

const WRITES = ["patch", "put", "post", "delete"];
/** Replicas that do not lead write these, too. */
const NOT_OF_A_LEADER = ["leases", "events"];

/** Whether only a leader makes these requests. */
export function isLeaders({ verb, resource }: Count): boolean {
  return WRITES.includes(verb) && !NOT_OF_A_LEADER.includes(resource);
}

/** The sum of a number over the counts that `which` names; what is left out means any. */
export function sumOf(
  counts: readonly Count[],
  of: "requests" | "bytes" | "sent" | "events" | "refused",
  which: { readonly component?: string; readonly verb?: string; readonly resource?: string } = {},
): number {
  const fits = (count: Count) =>
    Object.entries(which).every(([key, value]) => count[key as "component" | "verb" | "resource"] === value);
  return counts.filter(fits).reduce((sum, count) => sum + count[of], 0);
}
