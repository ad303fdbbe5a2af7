import type { Config } from "#lib/config/schema.ts";
import { leaderClient } from "#lib/kube/leader-client.ts";
import { pause, steadyNow } from "#lib/kube/time.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { createReplica, type Replica, type ReplicaDeps } from "./replica.ts";
import type { StatusDocument } from "./status.ts";

interface ObserveOptions extends Pick<ReplicaDeps, "client" | "clusterDomain" | "identity" | "answers" | "nodes"> {
  /** Maximum time to wait until everything is known, in milliseconds. */
  readonly withinMs: number;
  /** How long to wait while no source can make progress, in milliseconds. */
  readonly stuckMs: number;
}

const POLL_MS = 10;

/**
 * What a controller would report about a cluster now. It uses the controller's own code: a replica that never leads,
 * and so writes nothing. If a kind cannot be read, the status says `synced: false`, and the state of its source says
 * why.
 */
export async function observe(config: Config, options: ObserveOptions): Promise<StatusDocument> {
  const client = leaderClient(options.client, () => false);
  const replica = createReplica(config, { ...options, client, log: silentLogger, now: Date.now });
  const { loop, status } = replica;
  loop.start();
  try {
    await untilKnown(replica, options);
    return status();
  } finally {
    await loop.stop();
  }
}

async function untilKnown({ loop, source }: Replica, { withinMs, stuckMs }: ObserveOptions): Promise<void> {
  const end = steadyNow() + withinMs;
  let stuckSince: number | undefined;
  while (!(loop.synced && loop.isRead) && steadyNow() < end) {
    // A source without `inactiveMs` has not started, because it waits for another one. So it makes no progress either.
    const isStuck = source
      .state()
      .every(({ synced, problems, inactiveMs }) => synced || problems.length > 0 || inactiveMs === undefined);
    stuckSince = isStuck ? (stuckSince ?? steadyNow()) : undefined;
    if (stuckSince !== undefined && steadyNow() - stuckSince >= stuckMs) return;
    await pause(POLL_MS);
  }
}
