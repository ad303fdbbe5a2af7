import assert from "node:assert/strict";
import { encodeSockaddr } from "#proxy/linux/abi.ts";
import { newCounters, readCounters } from "#proxy/linux/counters.ts";
import { newDialFailures } from "#proxy/linux/dial-failures.ts";
import type { Command, Reply, WorkerAddress, WorkerListener } from "#proxy/linux/worker-messages.ts";
import type { TargetStats } from "#proxy/target-stats.ts";
import type { FakeKernel } from "./kernel.ts";
import { DECLARED_PORT, type End, PROTOCOLS, type Protocol } from "./relay-end.ts";

type CommandBody =
  | { readonly kind: "listen"; readonly listeners: readonly WorkerListener[] }
  | { readonly kind: "cut"; readonly listener: string | undefined }
  | { readonly kind: "exit" };

/** The lists of upstream addresses that a listener can have. True means that the address is the relay itself. */
const ADDRESS_LISTS = [[], [false], [false, false], [false, false, false], [true, false], [true]];

/**
 * The main thread, as a worker sees it. It has one listener per protocol, which it removes and adds again, and it
 * sends commands.
 */
export class MainThread {
  readonly wake: number;
  readonly #kernel: FakeKernel;
  readonly #clients: readonly End[];
  readonly #counters = new Map(PROTOCOLS.map((protocol) => [protocol, newCounters()] as const));
  readonly #listeners = new Map<Protocol, number>();
  readonly #commands: Command[] = [];
  readonly #whenDone = new Map<number, (count: number) => void>();
  #addresses: readonly WorkerAddress[] = addresses([false, false]);
  #lastId = 0;

  /** `clients`: all clients ever created. A cut is checked against them. */
  constructor(kernel: FakeKernel, clients: readonly End[]) {
    this.#kernel = kernel;
    this.#clients = clients;
    this.wake = kernel.eventfd();
    for (const protocol of PROTOCOLS) this.adopt(protocol);
  }

  stats(): TargetStats {
    return readCounters([...this.#counters.values()]);
  }

  /** The listener for clients of a protocol; undefined if it is removed. */
  listener(protocol: Protocol): number | undefined {
    return this.#listeners.get(protocol);
  }

  cut(listener: Protocol | undefined): void {
    this.#send({ kind: "cut", listener });
  }

  drop(protocol: Protocol): void {
    const fd = this.#listeners.get(protocol);
    if (fd === undefined) return;
    this.#listeners.delete(protocol);
    this.#sendListeners(fd);
  }

  adopt(protocol: Protocol): void {
    if (this.#listeners.has(protocol)) return;
    this.#listeners.set(protocol, this.#open());
    this.#sendListeners();
  }

  /** Moves a listener to another socket. */
  swap(protocol: Protocol): void {
    const fd = this.#listeners.get(protocol);
    if (fd === undefined) return;
    this.#listeners.set(protocol, this.#open());
    this.#sendListeners(fd);
  }

  /** Changes the addresses of the upstream. */
  move(which: number): void {
    this.#addresses = addresses(ADDRESS_LISTS[which % ADDRESS_LISTS.length] ?? []);
    this.#sendListeners();
  }

  /** Ends the worker in the same way as the engine: removes the listeners and cuts the remaining connections. */
  end(): void {
    for (const protocol of PROTOCOLS) this.drop(protocol);
    this.cut(undefined);
    this.#send({ kind: "exit" });
  }

  // --- the worker's end

  readonly receive = (): Command | undefined => {
    const command = this.#commands.shift();
    if (command?.kind === "cut") this.#expectCut(command.id, command.listener);
    return command;
  };

  readonly reply = (reply: Reply): void => {
    if (reply.kind === "done") this.#whenDone.get(reply.id)?.(reply.count);
  };

  #expectCut(id: number, listener: string | undefined): void {
    const open = this.#clients.filter(({ isGone, socket }) => socket.port !== 0 && !isGone);
    const expected = open.filter(({ protocol }) => listener === undefined || listener === protocol);
    this.#whenDone.set(id, (count) => {
      assert.equal(count, expected.length, "a cut ends every connection that is open");
      for (const client of expected) {
        assert.equal(client.socket.goneBy, "reset");
        client.wasCut = true;
      }
    });
  }

  #send(body: CommandBody, onDone?: () => void): void {
    this.#lastId += 1;
    if (onDone !== undefined) this.#whenDone.set(this.#lastId, onDone);
    this.#commands.push({ ...body, id: this.#lastId });
    this.#kernel.write(this.wake);
  }

  /** Sends the current listeners. Closes `gone` when the worker no longer accepts on it. */
  #sendListeners(gone?: number): void {
    const listeners = [...this.#listeners].map(([protocol, fd]) => this.#spec(protocol, fd));
    this.#send({ kind: "listen", listeners }, () => {
      if (gone !== undefined) this.#kernel.close(gone);
    });
  }

  /** Opens a listener. The main thread gets a descriptor even if the worker has none left. */
  #open(): number {
    const { maxFiles } = this.#kernel;
    this.#kernel.maxFiles = Number.POSITIVE_INFINITY;
    const fd = this.#kernel.listener();
    this.#kernel.maxFiles = maxFiles;
    return fd;
  }

  #spec(protocol: Protocol, fd: number): WorkerListener {
    const counters = this.#counters.get(protocol);
    if (counters === undefined) throw new Error(`no counters of ${protocol}`);
    return {
      name: protocol,
      target: "target",
      fd,
      localAddress: undefined,
      declaredPort: DECLARED_PORT,
      protocol,
      refusesClientHeaders: protocol === "none",
      tlvs: { crc32c: true, uniqueId: true },
      addresses: this.#addresses,
      port: 443,
      unresolved: this.#addresses.length === 0 ? "dns-timeout" : undefined,
      counters,
      dialFailures: newDialFailures(),
    };
  }
}

function addresses(areSelf: readonly boolean[]): WorkerAddress[] {
  return areSelf.map((isSelf, index) => ({
    text: `10.0.0.${index + 1}`,
    sockaddr: encodeSockaddr(Uint8Array.of(10, 0, 0, index + 1), 443),
    isSelf,
  }));
}
