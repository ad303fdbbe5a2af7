import { SwitchbackError } from "../../errors/errors.ts";
import { addressBytes, addressText } from "../address.ts";
import type { ListenerSpec, ListenerStatus, OwnAddresses } from "../engine.ts";
import { isSelf } from "../is-self.ts";
import { encodeSockaddr } from "./abi.ts";
import { newDialFailures } from "./dial-failures.ts";
import type { Libc } from "./libc.ts";
import type { WorkerAddress, WorkerListener } from "./plan.ts";
import { listenOn, localName } from "./sockets.ts";

/** A listener as the main thread has it: a socket for each worker, and what the workers share of it. */
export class ListenerSockets {
  spec: ListenerSpec;
  readonly #libc: Libc;
  #fds: readonly number[] = [];
  #bound: { readonly address: string; readonly port: number } | undefined;
  #error = "not bound yet";
  #dials = newDialFailures();
  #addresses: readonly string[] = [];

  constructor(libc: Libc, spec: ListenerSpec) {
    this.#libc = libc;
    this.spec = spec;
  }

  /** Binds a socket for each of `count` workers. Throws `listen-failed`; then the status says why. */
  bind(count: number, keepaliveMs: number): void {
    const { name, address, port } = this.spec;
    try {
      this.#fds = listenOn(this.#libc, { address, port, count, keepaliveMs });
    } catch (cause) {
      this.#error = cause instanceof Error ? cause.message : String(cause);
      throw new SwitchbackError("listen-failed", `${name} cannot be bound to ${address} port ${port}`, { cause });
    }
    const local = this.#fds[0] === undefined ? undefined : localName(this.#libc, this.#fds[0]);
    this.#bound = local && { address: addressText(local.address), port: local.port };
  }

  status(): ListenerStatus {
    const { name, target, address, port } = this.spec;
    if (this.#bound === undefined) return { name, target, address, port, bound: false, error: this.#error };
    return { name, target, address: this.#bound.address, port: this.#bound.port, bound: true };
  }

  /** Whether it runs where the spec wants it; one that could not be bound is tried again. */
  isBoundAs({ address, port }: ListenerSpec): boolean {
    return this.#bound !== undefined && address === this.spec.address && port === this.spec.port;
  }

  /** Closes the sockets, once no worker accepts on them any more. */
  close(): void {
    for (const fd of this.#fds) this.#libc.close(fd);
    this.#fds = [];
    this.#bound = undefined;
    this.#error = "closed";
  }

  /** What the worker with this number is to know; undefined while nothing is bound. */
  forWorker(
    index: number,
    own: OwnAddresses,
    bound: readonly ListenerStatus[],
    counters: SharedArrayBuffer,
  ): WorkerListener | undefined {
    const fd = this.#fds[index];
    if (fd === undefined || this.#bound === undefined) return undefined;
    const { name, target, declaredPort, protocol, tlvs, upstream } = this.spec;
    const local = addressBytes(this.#bound.address);
    return {
      name,
      target,
      fd,
      localAddress: local?.some((byte) => byte !== 0) === true ? local : undefined,
      declaredPort,
      protocol,
      tlvs,
      port: upstream.port,
      unresolved: upstream.unresolved,
      addresses: upstream.addresses.flatMap((text): WorkerAddress[] => {
        const bytes = addressBytes(text);
        if (bytes === undefined) return [];
        const sockaddr = encodeSockaddr(bytes, upstream.port);
        return [{ text, sockaddr, isSelf: isSelf(text, upstream.port, own, bound) }];
      }),
      counters,
      dialFailures: this.#sharedDials(),
    };
  }

  /** The memory of failures goes by an address's place in the list: another list, another memory. */
  #sharedDials(): SharedArrayBuffer {
    const { addresses } = this.spec.upstream;
    if (addresses.join() !== this.#addresses.join()) {
      const connected = new Int32Array(this.#dials)[0] ?? 0;
      this.#dials = newDialFailures();
      new Int32Array(this.#dials)[0] = connected;
      this.#addresses = addresses;
    }
    return this.#dials;
  }
}
