import { connectCause, type DialCause } from "../close-causes.ts";
import { type DialFailure, MAX_DIALS } from "../engine.ts";
import { ERRNO } from "./abi.ts";
import type { Libc } from "./libc.ts";
import type { ListenerState } from "./listener-state.ts";
import type { WorkerAddress } from "./plan.ts";
import { connectTo, errnoName, openTcpSocket } from "./sockets.ts";

/** What a step of a dial gives instead of a descriptor: no address is left; this process is out of descriptors or memory. */
const DIAL_FAILED = -1;
export const DIAL_LOCAL_LIMIT = -2;

const NO_FAILURES: readonly DialFailure[] = [];

/** One connection's way through its upstream's addresses, at most MAX_DIALS of them. Lives until it is connected or refused. */
export class UpstreamDial {
  failures: readonly DialFailure[] = NO_FAILURES;
  /** With DIAL_LOCAL_LIMIT: what the system said. */
  localLimit = "";
  readonly #libc: Libc;
  readonly #listener: ListenerState;
  readonly #candidates: readonly WorkerAddress[];
  #next = 0;
  #begun = 0;

  constructor(libc: Libc, listener: ListenerState) {
    this.#libc = libc;
    this.#listener = listener;
    this.#candidates = listener.candidates();
    if (this.#candidates.length === 0) {
      this.#fail(undefined, listener.spec.unresolved ?? "dns-timeout", "no address of the upstream is known");
    }
  }

  /** Begins to connect to the next address that is not our own. A descriptor, DIAL_FAILED or DIAL_LOCAL_LIMIT. */
  connectNext(): number {
    for (;;) {
      const address = this.#next < MAX_DIALS ? this.#candidates[this.#next] : undefined;
      if (address === undefined) return DIAL_FAILED;
      this.#next += 1;
      if (address.isSelf) {
        this.#fail(address.text, "self", `${address.text} port ${this.#listener.spec.port} is this proxy`);
        continue;
      }
      const outcome = this.#connect(address);
      if (outcome !== DIAL_FAILED) return outcome;
    }
  }

  /** The address being dialled has answered. */
  connected(): void {
    const address = this.#candidates[this.#next - 1];
    if (address !== undefined) this.#listener.connected(address.text, (performance.now() - this.#begun) / 1000);
  }

  /** The address being dialled has answered with an error, a positive errno. */
  refused(errno: number): void {
    const address = this.#candidates[this.#next - 1];
    if (address !== undefined) this.#failedWith(address, "connect", errno);
  }

  timedOut(timeoutMs: number): void {
    const address = this.#candidates[this.#next - 1]?.text;
    const detail = `no answer from ${address}:${this.#listener.spec.port} in ${timeoutMs} ms`;
    this.#fail(address, "timeout", detail);
  }

  #connect(address: WorkerAddress): number {
    const fd = openTcpSocket(this.#libc, address.sockaddr);
    if (fd < 0) return this.#failedWith(address, "socket", -fd);
    this.#begun = performance.now();
    const outcome = connectTo(this.#libc, fd, address.sockaddr);
    if (outcome === 0 || outcome === -ERRNO.EINPROGRESS) return fd;
    this.#libc.close(fd);
    return this.#failedWith(address, "connect", -outcome);
  }

  /** Notes a failed call. */
  #failedWith(address: WorkerAddress, call: string, errno: number): number {
    const name = errnoName(errno);
    const cause = connectCause(name);
    if (cause === "local-limit") {
      this.localLimit = `${call} ${name}`;
      return DIAL_LOCAL_LIMIT;
    }
    this.#fail(address.text, cause, `${call} ${name} ${address.text}:${this.#listener.spec.port}`);
    return DIAL_FAILED;
  }

  #fail(address: string | undefined, cause: DialCause, detail: string): void {
    this.failures = [...this.failures, { address, cause, detail }];
    this.#listener.dialFailed(address, cause);
  }
}
