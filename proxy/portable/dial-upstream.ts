import type { Socket } from "node:net";
import { type DialFailure, MAX_DIALS, type UpstreamSpec } from "../engine.ts";
import { observeConnect, type TargetStats } from "../target-stats.ts";
import type { CandidateOrder } from "../upstream-candidates.ts";
import { dial } from "./connect-socket.ts";

interface UpstreamDial {
  readonly upstream: UpstreamSpec;
  readonly order: CandidateOrder;
  readonly isSelf: (address: string, port: number) => boolean;
  readonly connectTimeoutMs: number;
  readonly keepaliveMs: number;
  readonly stats: TargetStats;
}

/** How it ended. With neither socket nor `localLimit`, `failures` says why. */
export interface UpstreamOutcome {
  readonly socket?: Socket;
  readonly failures: readonly DialFailure[];
  /** The operating system's word when the process ran out of descriptors or memory: no fault of the upstream. */
  readonly localLimit?: string;
}

/**
 * Tries the upstream's addresses one after the other, at most MAX_DIALS. `done` is called once, at once if there is no
 * address to dial, unless the returned function was called first: it gives up.
 */
export function dialUpstream(wanted: UpstreamDial, done: (outcome: UpstreamOutcome) => void): () => void {
  const { upstream, order, stats } = wanted;
  const { port } = upstream;
  const left = order.next(upstream.addresses, Date.now()).slice(0, MAX_DIALS);
  const failures: DialFailure[] = [];
  let abandon = (): void => {};
  const failed = (failure: DialFailure): void => {
    failures.push(failure);
    stats.dialErrors[failure.cause] += 1;
    if (failure.address !== undefined) order.failed(failure.address, Date.now());
  };
  const tryNext = (index: number): void => {
    const address = left[index];
    if (address === undefined) {
      done({ failures });
      return;
    }
    if (wanted.isSelf(address, port)) {
      failed({ address, cause: "self", detail: `${address} port ${port} is this proxy` });
      tryNext(index + 1);
      return;
    }
    abandon = dial(
      { address, port, timeoutMs: wanted.connectTimeoutMs, keepaliveMs: wanted.keepaliveMs },
      (outcome) => {
        if (outcome.connected) {
          order.connected(address);
          observeConnect(stats, outcome.seconds);
          done({ socket: outcome.socket, failures });
        } else if (outcome.cause === "local-limit") {
          done({ failures, localLimit: outcome.detail });
        } else {
          failed({ address, cause: outcome.cause, detail: outcome.detail });
          tryNext(index + 1);
        }
      },
    );
  };
  if (left.length === 0) {
    const cause = upstream.unresolved ?? "dns-timeout";
    failed({ address: undefined, cause, detail: "no address of the upstream is known" });
  }
  tryNext(0);
  return () => abandon();
}
