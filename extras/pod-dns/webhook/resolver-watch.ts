import { readFileSync } from "node:fs";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { pause, steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type PodDnsSettings, RESOLVERS } from "../config.ts";
import { type ClusterDns, nodeSearchesNotice, type PodDnsSetup, readClusterDns } from "./dns-config.ts";
import { ResolverHealth } from "./resolver-health.ts";
import { resolverQueries } from "./resolver-queries.ts";

/** Tracks whether pods can get the resolvers of pod DNS. */
export interface ResolverWatch {
  /** The resolvers and the other DNS settings of their pods, or the reason why pods get hostAliases now. */
  setup(): PodDnsSetup | Reason;
  stop(): Promise<void>;
}

/** How often both resolvers are asked, in milliseconds. */
const PERIOD_MS = 1_000;
/** How often resolv.conf is read again while it is not from a pod with dnsPolicy ClusterFirst, in milliseconds. */
const REREAD_MS = 10_000;

/** Asks both resolvers of pod DNS each second whether they answer with the map, until it is stopped. */
export function watchResolvers(settings: PodDnsSettings, namespace: string, log: Logger): ResolverWatch {
  const stopping = new AbortController();
  let cluster: ClusterDns | Reason = UNREAD;
  let health: ResolverHealth | undefined;
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      cluster = readCluster(settings, namespace);
      if (!("code" in cluster)) break;
      log.warn({ ...cluster }, "pod DNS: not used");
      await pause(REREAD_MS, stopping.signal);
    }
    if ("code" in cluster) return;
    const { domain, servers } = cluster;
    const notice = nodeSearchesNotice(cluster, settings.searches);
    if (notice !== undefined) log.warn({ ...notice }, "pod DNS: search domains");
    const services = RESOLVERS.map((name) => `${name}.${namespace}.svc.${domain}`);
    health = new ResolverHealth({ services, queries: resolverQueries(servers), now: steadyNow, log });
    while (!stopping.signal.aborted) {
      await Promise.all([health.check(), pause(PERIOD_MS, stopping.signal)]);
    }
  };
  const ended = run();
  return {
    setup() {
      if ("code" in cluster) return cluster;
      const resolvers = health?.resolvers() ?? UNREAD;
      return "code" in resolvers ? resolvers : { resolvers, cluster };
    },
    async stop() {
      stopping.abort();
      await ended;
    },
  };
}

const UNREAD: Reason = { code: "dns-not-ready", text: "the resolvers of pod DNS were not asked yet" };

function readCluster({ resolvConf, searches }: PodDnsSettings, namespace: string): ClusterDns | Reason {
  try {
    return readClusterDns(readFileSync(resolvConf, "utf8"), namespace, searches);
  } catch (error) {
    return { code: "dns-not-cluster-first", text: `${resolvConf} cannot be read: ${describeError(error)}` };
  }
}
