import { SwitchbackError } from "#lib/errors/errors.ts";
import { addressBytes, addressText } from "../address.ts";
import type { ListenerSpec, ListenerStatus, SelfEndpoints } from "../engine.ts";
import { isSelf } from "../is-self.ts";
import { encodeSockaddr } from "./abi.ts";
import { newDialFailures } from "./dial-failures.ts";
import type { Libc } from "./libc.ts";
import { listenOn, localName } from "./sockets.ts";
import type { WorkerAddress, WorkerListener } from "./worker-messages.ts";

/** The main thread's state of a listener: one socket per worker, and the dial state that the workers share. */
export class ListenerSockets {
  spec: ListenerSpec;
  readonly #libc: Libc;
  #fds: readonly number[] = [];
  #bound: { readonly address: string; readonly port: number } | undefined;
  #error = "not bound yet";
  #dialFailures = newDialFailures();
  #addresses: readonly string[] = [];

  constructor(libc: Libc, spec: ListenerSpec) {
    this.#libc = libc;
    this.spec = spec;
  }

  /** Binds one socket per worker. Throws `listen-failed` and keeps the reason for `status`. */
  bind(count: number, keepaliveMs: number): void {
    const { name, address, port } = this.spec;
    try {
      this.#fds = listenOn(this.#libc, { address, port, count, keepaliveMs });
    } catch (cause) {
      this.#error = cause instanceof Error ? cause.message : String(cause);
      throw new SwitchbackError("listen-failed", `cannot bind ${name} to ${address} port ${port}`, { cause });
    }
    const local = this.#fds[0] === undefined ? undefined : localName(this.#libc, this.#fds[0]);
    this.#bound = local && { address: addressText(local.address), port: local.port };
  }

  status(): ListenerStatus {
    const { name, target, address, port } = this.spec;
    if (this.#bound === undefined) return { name, target, address, port, bound: false, error: this.#error };
    return { name, target, address: this.#bound.address, port: this.#bound.port, bound: true };
  }

  /**
   * Whether the listener is bound to the address and port of the spec. False if it could not be bound, so that
   * binding is retried.
   */
  isBoundAs({ address, port }: ListenerSpec): boolean {
    return this.#bound !== undefined && address === this.spec.address && port === this.spec.port;
  }

  /** Closes the sockets. First stop all workers from accepting on them. */
  close(): void {
    for (const fd of this.#fds) this.#libc.close(fd);
    this.#fds = [];
    this.#bound = undefined;
    this.#error = "closed";
  }

  /** The listener for the worker with this index. Undefined while the listener is not bound. */
  workerListener(
    index: number,
    self: SelfEndpoints,
    bound: readonly ListenerStatus[],
    counters: SharedArrayBuffer,
  ): WorkerListener | undefined {
    const fd = this.#fds[index];
    if (fd === undefined || this.#bound === undefined) return undefined;
    const { name, target, declaredPort, protocol, refusesClientHeaders = false, tlvs, upstream } = this.spec;
    const local = addressBytes(this.#bound.address);
    return {
      name,
      target,
      fd,
      localAddress: local?.some((byte) => byte !== 0) === true ? local : undefined,
      declaredPort,
      protocol,
      refusesClientHeaders,
      tlvs,
      port: upstream.port,
      unresolved: upstream.unresolved,
      addresses: upstream.addresses.flatMap((text): WorkerAddress[] => {
        const bytes = addressBytes(text);
        if (bytes === undefined) return [];
        const sockaddr = encodeSockaddr(bytes, upstream.port);
        return [{ text, sockaddr, isSelf: isSelf(text, upstream.port, self, bound) }];
      }),
      counters,
      dialFailures: this.#sharedDialFailures(),
    };
  }

  /** Failures are stored by an address's position in the list, so a new list needs new shared memory. */
  #sharedDialFailures(): SharedArrayBuffer {
    const { addresses } = this.spec.upstream;
    if (addresses.join() !== this.#addresses.join()) {
      const connected = new Int32Array(this.#dialFailures)[0] ?? 0;
      this.#dialFailures = newDialFailures();
      new Int32Array(this.#dialFailures)[0] = connected;
      this.#addresses = addresses;
    }
    return this.#dialFailures;
  }
}
