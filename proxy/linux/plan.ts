import type { DialCause, RefusalCause } from "../close-causes.ts";
import type { DialReport, EngineLimits } from "../engine.ts";
import type { WantedTlvs } from "../proxy-header-tlvs.ts";

/*
 * What the main thread and a worker say to each other: plain data. A message to a worker is followed by a write to its eventfd,
 * since the worker sleeps in epoll_wait.
 */

/** One address to dial, made ready by the main thread. */
export interface WorkerAddress {
  readonly text: string;
  readonly sockaddr: Uint8Array;
  /** Dialling it would lead back to this proxy. */
  readonly isSelf: boolean;
}

/** A listener as a worker sees it. */
export interface WorkerListener {
  readonly name: string;
  readonly target: string;
  /** This worker's listening socket. The main thread has opened it and closes it. */
  readonly fd: number;
  /** The address that clients called, unless the listener is bound to any address. */
  readonly localAddress: Uint8Array | undefined;
  readonly declaredPort: number;
  readonly protocol: "v1" | "v2" | "none";
  readonly tlvs: WantedTlvs | undefined;
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
  /** Accept on these and no others. */
  | { readonly kind: "plan"; readonly id: number; readonly listeners: readonly WorkerListener[] }
  /** Reset the connections of a listener that is gone, or all. */
  | { readonly kind: "cut"; readonly id: number; readonly listener: string | undefined }
  | { readonly kind: "exit"; readonly id: number };

export type Reply =
  /** The worker runs its loop. */
  | { readonly kind: "ready" }
  /** A command is carried out; `count`: connections that are open now, or with `cut` those that were reset. */
  | { readonly kind: "done"; readonly id: number; readonly count: number }
  | { readonly kind: "dial"; readonly report: DialReport }
  | {
      readonly kind: "refused";
      readonly cause: Exclude<RefusalCause, "upstream">;
      readonly count: number;
      readonly fields: object;
    };
