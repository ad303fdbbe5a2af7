import type { DialCause } from "../close-causes.ts";
import { CandidateOrder } from "../upstream-candidates.ts";
import { Counters } from "./counters.ts";
import { DialFailures } from "./dial-failures.ts";
import type { WorkerAddress, WorkerListener } from "./plan.ts";

const LEAST_CAUTIOUS = 8;
const MOST_CAUTIOUS = 1024;

/** A listener as one worker has it: the spec that its next connections follow, its counters, and what is known of its upstream. */
export class ListenerState {
  spec: WorkerListener;
  /** Connections of this worker that came in here. */
  open = 0;
  readonly counters: Counters;
  readonly dialFailures: DialFailures;
  readonly #order: CandidateOrder;
  #texts: readonly string[] = [];
  /** Connections that are not to write at once, and how many it were last time. */
  #cautious = 0;
  #lastCautious = 0;

  constructor(spec: WorkerListener) {
    this.spec = spec;
    this.counters = new Counters(spec.counters);
    this.dialFailures = new DialFailures(spec.dialFailures);
    this.#order = new CandidateOrder(this.dialFailures);
    this.update(spec);
  }

  update(spec: WorkerListener): void {
    this.spec = spec;
    this.#texts = spec.addresses.map(({ text }) => text);
    this.dialFailures.setAddresses(this.#texts);
  }

  /**
   * Whether a connection is to write to its upstream right after connect(). On one machine the handshake is over by then, and the wait
   * for it, with its events, can be saved; between machines it is not, and the try is in vain: then fewer and fewer try.
   */
  shouldWriteEarly(): boolean {
    if (this.#cautious === 0) return true;
    this.#cautious -= 1;
    return false;
  }

  /** What came of writing at once. */
  recordEarlyWrite(hasSucceeded: boolean): void {
    if (!hasSucceeded) this.#cautious = Math.min(MOST_CAUTIOUS, Math.max(LEAST_CAUTIOUS, this.#lastCautious * 2));
    this.#lastCautious = this.#cautious;
  }

  /** The upstream's addresses in the order to try them. */
  candidates(): readonly WorkerAddress[] {
    const { addresses } = this.spec;
    if (addresses.length < 2) return addresses;
    const order = this.#order.next(this.#texts, Date.now());
    return order.flatMap((text) => addresses.find((address) => address.text === text) ?? []);
  }

  connected(address: string, seconds: number): void {
    if (this.#texts.length > 1) this.#order.connected(address);
    this.counters.connected(seconds);
  }

  dialFailed(address: string | undefined, cause: DialCause): void {
    this.counters.dialFailed(cause);
    if (address !== undefined) this.#order.failed(address, Date.now());
  }
}
