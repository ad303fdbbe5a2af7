import type { DialCause, RefusalCause } from "../close-causes.ts";
import type { DialReport, EngineLimits } from "../engine.ts";
import type { TlvOptions } from "../proxy-header.ts";

/*
 * Messages between the main thread and a worker: plain data. A message to a worker is followed by a write to its
 * eventfd, because the worker sleeps in epoll_wait.
 */

/** One address to dial, prepared by the main thread. */
export interface WorkerAddress {
  readonly text: string;
  readonly sockaddr: Uint8Array;
  /** The address is this proxy itself. A dial would loop. */
  readonly isSelf: boolean;
}

/** A listener as a worker sees it. */
export interface WorkerListener {
  readonly name: string;
  readonly target: string;
  /** This worker's listening socket. The main thread opens and closes it. */
  readonly fd: number;
  /** The address that clients connect to. Undefined if the listener is bound to the unspecified address. */
  readonly localAddress: Uint8Array | undefined;
  readonly declaredPort: number;
  readonly protocol: "v1" | "v2" | "none";
  readonly refusesClientHeaders: boolean;
  readonly tlvs: TlvOptions | undefined;
  readonly addresses: readonly WorkerAddress[];
  readonly port: number;
  readonly unresolved: DialCause | undefined;
  readonly counters: SharedArrayBuffer;
  readonly dialFailures: SharedArrayBuffer;
}

export interface WorkerData {
  readonly wake: number;
  readonly limits: EngineLimits;
  readonly connectionLimits: SharedArrayBuffer;
}

export type Command =
  /** Accept on these listeners and no others. */
  | { readonly kind: "listen"; readonly id: number; readonly listeners: readonly WorkerListener[] }
  /** Reset the connections of a removed listener, or of all. */
  | { readonly kind: "cut"; readonly id: number; readonly listener: string | undefined }
  | { readonly kind: "exit"; readonly id: number };

export type Reply =
  /** The worker's event loop runs. */
  | { readonly kind: "ready" }
  /** A command has completed. `count`: connections open now; for `cut`, connections reset. */
  | { readonly kind: "done"; readonly id: number; readonly count: number }
  | { readonly kind: "dial"; readonly report: DialReport }
  | {
      readonly kind: "refused";
      readonly cause: Exclude<RefusalCause, "upstream">;
      readonly count: number;
      readonly fields: object;
    };
