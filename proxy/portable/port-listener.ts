import { createServer, type Server, type Socket } from "node:net";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { LISTEN_BACKLOG, type ListenerSpec, type ListenerStatus } from "../engine.ts";
import type { Endpoint } from "../proxy-header.ts";
import { CandidateOrder } from "../upstream-candidates.ts";

/** Errors of binding `::` without IPv6 in the kernel. Then the IPv4 wildcard is used. */
const NO_IPV6 = new Set(["EAFNOSUPPORT", "EADDRNOTAVAIL"]);

/** A listening socket and the spec for its next connections. */
export class PortListener {
  spec: ListenerSpec;
  readonly order = new CandidateOrder();
  /** Whether the last dial reported for this listener connected. */
  lastConnected = false;
  readonly #server: Server;
  #bound: Endpoint | undefined;
  #error = "not bound yet";

  constructor(spec: ListenerSpec, keepaliveMs: number, onClient: (client: Socket, listener: PortListener) => void) {
    this.spec = spec;
    this.#server = createServer({
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: keepaliveMs > 0,
      keepAliveInitialDelay: keepaliveMs,
    });
    this.#server.on("connection", (client: Socket) => onClient(client, this));
  }

  /** Binds the socket. Throws `listen-failed` and keeps the reason for `status`. */
  async bind(onError: (error: Error) => void): Promise<void> {
    const { address, port } = this.spec;
    try {
      await this.#listen(address).catch((error: NodeJS.ErrnoException) => {
        if (address !== "::" || !NO_IPV6.has(error.code ?? "")) throw error;
        return this.#listen("0.0.0.0");
      });
    } catch (cause) {
      this.#error = cause instanceof Error ? cause.message : String(cause);
      throw new SwitchbackError("listen-failed", `cannot bind ${this.spec.name} to ${address} port ${port}`, {
        cause,
      });
    }
    // Stored, because every dial needs it and server.address() is a system call.
    const bound = this.#server.address();
    this.#bound = bound !== null && typeof bound !== "string" ? bound : undefined;
    this.#server.on("error", onError);
  }

  status(): ListenerStatus {
    const { name, target, address, port } = this.spec;
    if (this.#bound === undefined) return { name, target, address, port, bound: false, error: this.#error };
    return { name, target, address: this.#bound.address, port: this.#bound.port, bound: true };
  }

  /** Stops accepting; open connections continue. */
  close(): void {
    this.#bound = undefined;
    this.#error = "closed";
    this.#server.close();
  }

  #listen(address: string): Promise<void> {
    const server = this.#server;
    return new Promise((resolve, reject) => {
      const onError = (error: Error): void => {
        server.off("listening", onListening);
        reject(error);
      };
      const onListening = (): void => {
        server.off("error", onError);
        resolve();
      };
      server.once("error", onError);
      server.once("listening", onListening);
      server.listen({ host: address, port: this.spec.port, backlog: LISTEN_BACKLOG });
    });
  }
}
