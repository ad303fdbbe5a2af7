import type { EngineLimits } from "../engine.ts";
import type { Pump, PumpContext } from "./pump.ts";
import type { SocketOwner, SocketState } from "./socket-state.ts";
import type { TimeoutQueue } from "./timeout-queue.ts";
import type { UpstreamDial } from "./upstream-dial.ts";

/** What a connection needs from its event loop. */
export interface RelayContext extends PumpContext {
  readonly pump: Pump;
  readonly limits: EngineLimits;
  /**
   * Timeouts of connect() to the last address, and to one before it; of the client's first bytes; and of a client that
   * still sends after the upstream is gone.
   */
  readonly connectTimeouts: TimeoutQueue;
  readonly nextAddressTimeouts: TimeoutQueue;
  readonly firstBytesTimeouts: TimeoutQueue;
  readonly lingerTimeouts: TimeoutQueue;
  /** The loop's clock in milliseconds, read once per round. */
  readonly now: number;
  /** Adds a socket to the epoll set; false if the kernel refuses. */
  register(socket: SocketState, events: number): boolean;
  /** Call it before a descriptor is closed. */
  unregister(socket: SocketState): void;
  /** Advances the connection again at the end of this round. */
  requeue(connection: SocketOwner): void;
  /** A dial has connected, or failed at every address. */
  dialEnded(connection: SocketOwner, dial: UpstreamDial, connected: boolean): void;
  /** The client is refused because it began with a PROXY header. */
  clientHeaderRefused(connection: SocketOwner): void;
  /** If true, close a descriptor that was just opened: workers need it to refuse clients. */
  readonly isOutOfFds: () => boolean;
  outOfResources(connection: SocketOwner, detail: string): void;
  /** Both sockets are closed. */
  connectionClosed(connection: SocketOwner): void;
}
