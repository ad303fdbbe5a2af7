import type { AskedPort } from "./asked-port.ts";

/** Minimum interval between two rechecks of this proxy, whatever the number of its ports. */
const MIN_INTERVAL_MS = 6_000;
/** Interval between two rechecks of one port, if MIN_INTERVAL_MS allows it. */
const PORT_INTERVAL_MS = 25_000;
const JITTER = 0.2;
/** A port with a round or recheck within this time is skipped. */
const RECENT_MS = 15_000;

/** The delay before the next recheck, for `count` ports. */
export function recheckDelay(count: number, random: () => number): number {
  return Math.max(MIN_INTERVAL_MS, PORT_INTERVAL_MS / Math.max(1, count)) * (1 + JITTER * random());
}

/** The order of rechecks. Namespaces take turns, so that one with many ports does not delay the others. */
export class RecheckOrder {
  #turn = 0;
  /** The turn of each namespace's last recheck. */
  #turns = new Map<string, number>();

  /**
   * The port to recheck now. Chooses the namespace that has waited longest, and in it the port that was asked longest
   * ago.
   */
  next(ports: Iterable<AskedPort>, now: number): AskedPort | undefined {
    const oldest = new Map<string, AskedPort>();
    for (const port of ports) {
      if (port.recheckHeader === undefined || now - port.contactAt < RECENT_MS) continue;
      const { namespace } = port.question;
      const best = oldest.get(namespace);
      if (best === undefined || port.contactAt < best.contactAt) oldest.set(namespace, port);
    }
    const turnOf = (namespace: string): number => this.#turns.get(namespace) ?? -1;
    const [first, ...others] = oldest.keys();
    if (first === undefined) return undefined;
    const chosen = others.reduce((best, each) => (turnOf(each) < turnOf(best) ? each : best), first);
    this.#turns = new Map([...this.#turns].filter(([namespace]) => oldest.has(namespace)));
    this.#turns.set(chosen, this.#turn++);
    return oldest.get(chosen);
  }
}
