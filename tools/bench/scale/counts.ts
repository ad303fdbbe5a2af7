/** Requests of one component for one resource since the last call of `take`. */
export interface Count {
  readonly component: string;
  readonly verb: string;
  readonly resource: string;
  requests: number;
  /** Bytes of the response bodies: uncompressed JSON, without the overhead of HTTP and TLS. */
  bytes: number;
  /** Bytes of the request bodies. */
  sent: number;
  /** Number of responses with status 400 or higher. */
  refused: number;
  /** The accepted writes of a leader, in order, and whether somebody reads what was written. */
  written: Array<{ readonly url: string; readonly isRead: boolean }>;
  /** Number of watch events, without bookmarks. */
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

  /** Bytes of all responses since the last `take`, except those of watches, which may never be at rest. */
  get bytes(): number {
    return [...this.#all.values()].reduce((sum, { verb, bytes }) => sum + (verb === "watch" ? 0 : bytes), 0);
  }

  /** Returns the counts so far, and resets them. This includes the counts of watches that are still open. */
  take(): Count[] {
    const taken = [...this.#all.values()].map((count) => ({ ...count }));
    for (const count of this.#all.values()) {
      Object.assign(count, { requests: 0, bytes: 0, sent: 0, refused: 0, written: [], events: 0 });
    }
    return taken.filter(({ requests, bytes }) => requests > 0 || bytes > 0);
  }
}

const WRITES = ["patch", "put", "post", "delete"];
/** Resources that replicas other than the leader write, too. */
const NOT_OF_A_LEADER = ["leases", "events"];

/** Whether only a leader makes these requests. */
export function isLeaders({ verb, resource }: Count): boolean {
  return WRITES.includes(verb) && !NOT_OF_A_LEADER.includes(resource);
}

/** The sum of a number over the counts that match `which`; an omitted key matches any value. */
export function sumOf(
  counts: readonly Count[],
  of: "requests" | "bytes" | "sent" | "events" | "refused",
  which: { readonly component?: string; readonly verb?: string; readonly resource?: string } = {},
): number {
  const fits = (count: Count) =>
    Object.entries(which).every(([key, value]) => count[key as "component" | "verb" | "resource"] === value);
  return counts.filter(fits).reduce((sum, count) => sum + count[of], 0);
}
