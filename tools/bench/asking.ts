import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import type { CoreDns } from "#test/integration/coredns.ts";
import { encodeQuery, TYPES } from "#test/integration/dns-message.ts";

/** Queries one server from one socket, so that the result shows the cost of the resolver and not of sockets. */
export class Asking {
  readonly #socket: Socket;
  readonly #waiting = new Map<number, () => void>();
  readonly #name: string;
  #id = 0;

  private constructor(socket: Socket, name: string) {
    this.#socket = socket;
    this.#name = name;
    socket.on("message", (message) => {
      const id = message.readUInt16BE(0);
      this.#waiting.get(id)?.();
      this.#waiting.delete(id);
    });
  }

  static async of({ address, port }: CoreDns, name: string): Promise<Asking> {
    const socket = createSocket("udp4");
    socket.connect(port, address);
    await once(socket, "connect");
    return new Asking(socket, name);
  }

  /** Sends `count` queries, at most `atOnce` at a time. Returns the time to each answer, in milliseconds. */
  async ask(count: number, atOnce: number): Promise<number[]> {
    const times: number[] = [];
    let left = count;
    const one = async () => {
      while (left > 0) {
        left -= 1;
        const begun = performance.now();
        await this.#once();
        times.push(performance.now() - begun);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, one));
    return times;
  }

  close(): void {
    this.#socket.close();
  }

  #once(): Promise<void> {
    this.#id = (this.#id + 1) & 0xffff;
    const id = this.#id;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#socket.send(encodeQuery(id, this.#name, TYPES.A));
    });
  }
}
