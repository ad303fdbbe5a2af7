import { connectCause, type DialCause } from "../causes.ts";
import { type DialFailure, MAX_DIALS } from "../engine.ts";
import { EPOLLERR, EPOLLHUP, ERRNO } from "./abi.ts";
import type { Libc } from "./libc.ts";
import type { ListenerState } from "./listener-state.ts";
import type { WorkerAddress } from "./plan.ts";
import { connectTo, errnoName, openStream, pendingError, tune } from "./sockets.ts";

/** How the next step of a dial ended. */
export type DialStep =
  /** A socket that is connecting; an event will come. */
  | { readonly kind: "connecting"; readonly fd: number }
  /** No address is left. */
  | { readonly kind: "failed" }
  /** The process is out of descriptors or memory: no fault of the upstream. */
  | { readonly kind: "local-limit"; readonly detail: string };

/** One connection's way through its upstream's addresses, at most MAX_DIALS of them. Lives until it is connected or refused. */
export class Dial {
  readonly failures: DialFailure[] = [];
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

  /** Tries the next address that is not our own. */
  step(keepaliveMs: number): DialStep {
    for (;;) {
      const address = this.#next < MAX_DIALS ? this.#candidates[this.#next] : undefined;
      if (address === undefined) return { kind: "failed" };
      this.#next += 1;
      if (address.isSelf) {
        this.#fail(address.text, "self", `${address.text} port ${this.#listener.spec.port} is this proxy`);
        continue;
      }
      const step = this.#connect(address, keepaliveMs);
      if (step !== undefined) return step;
    }
  }

  /** Undefined if this address cannot be connected to. */
  #connect(address: WorkerAddress, keepaliveMs: number): DialStep | undefined {
    const fd = openStream(this.#libc, address.sockaddr);
    if (fd < 0) return this.#notConnecting(address, "socket", -fd);
    tune(this.#libc, fd, keepaliveMs);
    this.#begun = performance.now();
    const outcome = connectTo(this.#libc, fd, address.sockaddr);
    if (outcome === 0 || outcome === -ERRNO.EINPROGRESS) return { kind: "connecting", fd };
    this.#libc.close(fd);
    return this.#notConnecting(address, "connect", -outcome);
  }

  #notConnecting(address: WorkerAddress, call: string, errno: number): DialStep | undefined {
    const isLocal = this.#failedLocally(address, call, errno);
    return isLocal ? { kind: "local-limit", detail: `${call} ${errnoName(errno)}` } : undefined;
  }

  /** What an event on the connecting socket means: true if it is connected; else the failure is noted. */
  isConnected(fd: number, events: number): boolean {
    const address = this.#candidates[this.#next - 1];
    const errno = events & (EPOLLERR | EPOLLHUP) ? pendingError(this.#libc, fd) || ERRNO.ECONNRESET : 0;
    if (address === undefined) return false;
    if (errno !== 0) {
      this.#failedLocally(address, "connect", errno);
      return false;
    }
    this.#listener.connected(address.text, (performance.now() - this.#begun) / 1000);
    return true;
  }

  timedOut(timeoutMs: number): void {
    const address = this.#candidates[this.#next - 1]?.text;
    const detail = `no answer from ${address}:${this.#listener.spec.port} in ${timeoutMs} ms`;
    this.#fail(address, "timeout", detail);
  }

  /** Notes a failed call; true if the fault is this machine's. */
  #failedLocally(address: WorkerAddress, call: string, errno: number): boolean {
    const name = errnoName(errno);
    const cause = connectCause(name);
    if (cause === "local-limit") return true;
    this.#fail(address.text, cause, `${call} ${name} ${address.text}:${this.#listener.spec.port}`);
    return false;
  }

  #fail(address: string | undefined, cause: DialCause, detail: string): void {
    this.failures.push({ address, cause, detail });
    this.#listener.dialFailed(address, cause);
  }
}
