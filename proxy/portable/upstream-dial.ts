import type { Socket } from "node:net";
import { type DialFailure, dialTimeoutMs, MAX_DIALS, type UpstreamSpec } from "../engine.ts";
import { observeConnect, type TargetStats } from "../target-stats.ts";
import type { CandidateOrder } from "../upstream-candidates.ts";
import { connectSocket } from "./connect-socket.ts";

interface UpstreamDialOptions {
  readonly upstream: UpstreamSpec;
  readonly order: CandidateOrder;
  readonly isSelf: (address: string, port: number) => boolean;
  readonly connectTimeoutMs: number;
  readonly keepaliveMs: number;
  readonly stats: TargetStats;
}

/** The result of a dial. Without socket and `localLimit`, `failures` has the reasons. */
export interface UpstreamDialResult {
  readonly socket?: Socket;
  readonly failures: readonly DialFailure[];
  /** The operating system's error if the process ran out of descriptors or memory. The upstream did not cause it. */
  readonly localLimit?: string;
}

/**
 * Tries the upstream's addresses one by one, at most MAX_DIALS. The returned function cancels the dial. Otherwise
 * `done` is called once; synchronously if the upstream has no address.
 */
export function dialUpstream(options: UpstreamDialOptions, done: (result: UpstreamDialResult) => void): () => void {
  const { upstream, order, stats } = options;
  const { port } = upstream;
  const candidates = order.next(upstream.addresses, Date.now()).slice(0, MAX_DIALS);
  const failures: DialFailure[] = [];
  let cancel = (): void => {};
  const failed = (failure: DialFailure): void => {
    failures.push(failure);
    stats.dialErrors[failure.cause] += 1;
    if (failure.address !== undefined) order.failed(failure.address, Date.now());
  };
  const tryNext = (index: number): void => {
    const address = candidates[index];
    if (address === undefined) {
      done({ failures });
      return;
    }
    if (options.isSelf(address, port)) {
      failed({ address, cause: "self", detail: `${address} port ${port} is this proxy` });
      tryNext(index + 1);
      return;
    }
    const { connectTimeoutMs, keepaliveMs } = options;
    const timeoutMs = dialTimeoutMs(connectTimeoutMs, index + 1 < candidates.length);
    cancel = connectSocket({ address, port, timeoutMs, keepaliveMs }, (result) => {
      if (result.connected) {
        order.connected(address);
        observeConnect(stats, result.seconds);
        done({ socket: result.socket, failures });
      } else if (result.cause === "local-limit") {
        done({ failures, localLimit: result.detail });
      } else {
        failed({ address, cause: result.cause, detail: result.detail });
        tryNext(index + 1);
      }
    });
  };
  if (candidates.length === 0) {
    const cause = upstream.unresolved ?? "dns-timeout";
    failed({ address: undefined, cause, detail: "no address of the upstream is known" });
  }
  tryNext(0);
  return () => cancel();
}
