import { endpointText } from "../address.ts";
import { connectCause, type DialCause } from "../close-causes.ts";
import { type DialFailure, dialTimeoutMs, MAX_DIALS } from "../engine.ts";
import { ERRNO } from "./abi.ts";
import type { Libc } from "./libc.ts";
import type { ListenerState } from "./listener-state.ts";
import { connectTo, errnoName, openTcpSocket } from "./sockets.ts";
import type { WorkerAddress } from "./worker-messages.ts";

/**
 * Results of `connectNext` instead of a descriptor: no address is left; the process is out of descriptors or memory.
 */
const DIAL_FAILED = -1;
export const DIAL_LOCAL_LIMIT = -2;

const NO_FAILURES: readonly DialFailure[] = [];

/**
 * One connection's attempts to connect to its upstream's addresses, at most MAX_DIALS. Lives until the client is
 * connected or refused.
 */
export class UpstreamDial {
  failures: readonly DialFailure[] = NO_FAILURES;
  /** After DIAL_LOCAL_LIMIT: the failed call and its errno. */
  localLimit = "";
  readonly #libc: Libc;
  readonly #isOutOfFds: () => boolean;
  readonly #listener: ListenerState;
  readonly #candidates: readonly WorkerAddress[];
  #next = 0;
  #startedAt = 0;

  /** If `isOutOfFds`, the dial closes a descriptor that it has just opened. */
  constructor(libc: Libc, listener: ListenerState, isOutOfFds: () => boolean) {
    this.#libc = libc;
    this.#isOutOfFds = isOutOfFds;
    this.#listener = listener;
    this.#candidates = listener.candidates();
    if (this.#candidates.length === 0) {
      this.#recordFailure(undefined, listener.spec.unresolved ?? "dns-timeout", "no address of the upstream is known");
    }
  }

  /**
   * Starts connect() to the next address that is not this proxy. Returns a descriptor, DIAL_FAILED or DIAL_LOCAL_LIMIT.
   */
  connectNext(): number {
    for (;;) {
      const address = this.#next < MAX_DIALS ? this.#candidates[this.#next] : undefined;
      if (address === undefined) return DIAL_FAILED;
      this.#next += 1;
      if (address.isSelf) {
        this.#recordFailure(address.text, "self", `${address.text} port ${this.#listener.spec.port} is this proxy`);
        continue;
      }
      const result = this.#connect(address);
      if (result !== DIAL_FAILED) return result;
    }
  }

  /** The current address has accepted the connection. */
  connected(): void {
    const address = this.#candidates[this.#next - 1];
    if (address !== undefined) this.#listener.connected(address.text, (performance.now() - this.#startedAt) / 1000);
  }

  /** The current address has answered with an error, a positive errno. */
  connectFailed(errno: number): void {
    const address = this.#candidates[this.#next - 1];
    if (address !== undefined) this.#callFailed(address, "connect", errno);
  }

  /** Whether another address is left to try. */
  get hasNext(): boolean {
    return this.#next < Math.min(this.#candidates.length, MAX_DIALS);
  }

  connectTimedOut(connectTimeoutMs: number): void {
    const address = this.#candidates[this.#next - 1]?.text ?? "";
    const waited = dialTimeoutMs(connectTimeoutMs, this.hasNext);
    const detail = `no answer from ${endpointText(address, this.#listener.spec.port)} in ${waited} ms`;
    this.#recordFailure(address, "timeout", detail);
  }

  #connect(address: WorkerAddress): number {
    const fd = openTcpSocket(this.#libc, address.sockaddr);
    if (fd < 0) return this.#callFailed(address, "socket", -fd);
    if (this.#isOutOfFds()) {
      this.#libc.close(fd);
      return this.#callFailed(address, "socket", ERRNO.EMFILE);
    }
    this.#startedAt = performance.now();
    const result = connectTo(this.#libc, fd, address.sockaddr);
    if (result === 0 || result === -ERRNO.EINPROGRESS) return fd;
    this.#libc.close(fd);
    return this.#callFailed(address, "connect", -result);
  }

  /** Classifies and records a failed system call. */
  #callFailed(address: WorkerAddress, call: string, errno: number): number {
    const name = errnoName(errno);
    const cause = connectCause(name);
    if (cause === "local-limit") {
      this.localLimit = `${call} ${name}`;
      return DIAL_LOCAL_LIMIT;
    }
    const endpoint = endpointText(address.text, this.#listener.spec.port);
    this.#recordFailure(address.text, cause, `${call} ${name} ${endpoint}`);
    return DIAL_FAILED;
  }

  #recordFailure(address: string | undefined, cause: DialCause, detail: string): void {
    this.failures = [...this.failures, { address, cause, detail }];
    this.#listener.dialFailed(address, cause);
  }
}
