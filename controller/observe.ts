import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { leaderClient } from "#lib/kube/leader-client.ts";
import { pause, steadyNow } from "#lib/kube/time.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import type { DnsAnswers } from "./dnscheck/sweep.ts";
import { createReplica, type Replica } from "./replica.ts";
import type { StatusDocument } from "./status.ts";

interface ObserveOptions {
  readonly client: KubeClient;
  readonly clusterDomain: string | undefined;
  /** Shown in the status instead of the pod's name. */
  readonly identity: string;
  /** DNS answers that are already known. If present, no name is looked up. */
  readonly answers?: DnsAnswers | undefined;
  /** The IPs of the nodes, if known. */
  readonly nodes?: ReadonlySet<string> | undefined;
  /** Maximum time to wait until everything is known, in milliseconds. */
  readonly withinMs: number;
  /** How long to wait while no source can make progress, in milliseconds. */
  readonly stuckMs: number;
}

const POLL_MS = 10;

/**
 * What a controller would report about a cluster now. It uses the controller's own code: a replica that never leads,
 * and so writes nothing. If an object cannot be read, the status says `synced: false`, and its sources say why.
 */
export async function observe(config: Config, options: ObserveOptions): Promise<StatusDocument> {
  const { client, clusterDomain, identity, answers, nodes } = options;
  const replica = createReplica(config, {
    client: leaderClient(client, () => false),
    identity,
    clusterDomain,
    answers,
    nodes,
    log: silentLogger,
    now: Date.now,
    // Only a leader asks the proxies.
    askProxy: () => Promise.reject(new Error("not asked")),
    onFrontLost() {},
    reporters: {},
    mapReaders: () => 0,
  });
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
    // A source that has not started waits for another one.
    const isStuck = source
      .state()
      .every(({ synced, problems, inactiveMs }) => synced || problems.length > 0 || inactiveMs === undefined);
    stuckSince = isStuck ? (stuckSince ?? steadyNow()) : undefined;
    if (stuckSince !== undefined && steadyNow() - stuckSince >= stuckMs) return;
    await pause(POLL_MS);
  }
}
