import type { DialCause } from "../close-causes.ts";
import { CandidateOrder } from "../upstream-candidates.ts";
import { Counters } from "./counters.ts";
import { DialFailures } from "./dial-failures.ts";
import type { WorkerAddress, WorkerListener } from "./worker-messages.ts";

const MIN_SKIPPED = 8;
const MAX_SKIPPED = 1024;

/** One worker's state of a listener: the spec for its next connections, its counters, and the state of its upstream. */
export class ListenerState {
  spec: WorkerListener;
  /** Open connections of this worker. */
  open = 0;
  readonly counters: Counters;
  readonly dialFailures: DialFailures;
  readonly #order: CandidateOrder;
  #texts: readonly string[] = [];
  /** How many connections still skip the early write, and how many skipped it last time. */
  #toSkip = 0;
  #lastSkipped = 0;

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
   * Whether the next connection tries to write to its upstream right after connect(). On the same machine the handshake
   * is then complete, which saves the wait and its events. Between machines the attempt fails. Each failure doubles the
   * number of connections that skip it.
   */
  shouldWriteEarly(): boolean {
    if (this.#toSkip === 0) return true;
    this.#toSkip -= 1;
    return false;
  }

  /** Records whether an early write succeeded. */
  recordEarlyWrite(hasSucceeded: boolean): void {
    if (!hasSucceeded) this.#toSkip = Math.min(MAX_SKIPPED, Math.max(MIN_SKIPPED, this.#lastSkipped * 2));
    this.#lastSkipped = this.#toSkip;
  }

  /** The upstream's addresses, in the order to try them. */
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
