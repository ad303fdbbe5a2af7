import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { type AddedChecks, NOTHING_ADDED, readUpdaters } from "./added-checks.ts";
import { type Fact, known, readFact } from "./fact.ts";
import type { ClusterFacts, DnsFileFacts, InstallFacts } from "./facts.ts";
import { gatherAdmission } from "./gather-admission.ts";
import { gatherGateways, gatherIngresses, gatherNamespaces, gatherServices } from "./gather-cluster.ts";
import { gatherEndpoints } from "./gather-endpoints.ts";
import { gatherInstall } from "./gather-install.ts";
import { gatherHttpSolvers } from "./gather-issuers.ts";
import { gatherNodeAddresses } from "./gather-nodes.ts";
import { gatherPods } from "./gather-pods.ts";
import { isLive } from "./live.ts";
import { routesWithoutService } from "./load-balancers.ts";
import { optInRulesOf } from "./opt-in-rules.ts";
import { targetsOf } from "./targets.ts";

interface GatherOptions {
  readonly client: KubeClient;
  /** Switchback's namespace. */
  readonly namespace: string;
  /** Namespace of the dry-run pod and the probe pod. */
  readonly probeNamespace: string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** What the extras add to the diagnosis. */
  readonly added?: AddedChecks | undefined;
}

/** Reads all facts except the probe's, with the caller's permissions. Throws if it cannot reach the API server. */
export async function gather(options: GatherOptions): Promise<ClusterFacts> {
  const { client, namespace, probeNamespace, now, added = NOTHING_ADDED } = options;
  // Every user may read this. Without this first read, an unreachable API server would yield a dozen unknown facts.
  await client.get("/version");
  const [services, ingresses, gateways, namespaces, httpSolvers, install, admission] = await Promise.all([
    gatherServices(client),
    gatherIngresses(client),
    gatherGateways(client),
    gatherNamespaces(client),
    gatherHttpSolvers(client),
    gatherInstall(client, namespace, added.sections),
    gatherAdmission(client, namespace, probeNamespace),
  ]);
  const endpoints = known([]);
  const pods = await gatherPods(client, namespaces, optInRulesOf({ admission, install, namespace }));
  const config = install.config.known ? install.config.value : undefined;
  const source = { client, namespace, config, now: now() };
  const ownChecks = await Promise.all(added.checks.map((check) => check.prepare(source)));
  const dnsFiles = config === undefined ? [] : added.checks.flatMap((check) => check.dnsFiles?.(config) ?? []);
  const dns = { clusterDns: await gatherClusterDns(client, dnsFiles), now: source.now, added: ownChecks };
  const pending = { endpoints, updaters: undefined, probe: undefined };
  const ownFacts = { namespace, probeNamespace, install, admission, pods, ...dns, ...pending };
  const facts = { ...ownFacts, services, ingresses, gateways, namespaces, httpSolvers };
  const upstreams = targetsOf(facts).flatMap(({ upstream }) => (typeof upstream === "string" ? [] : upstream));
  const live = pods.known && pods.value.some(isLive(facts));
  return {
    ...facts,
    lookups: seenByController(install),
    nodeAddresses: routesWithoutService(facts).length === 0 ? undefined : await gatherNodeAddresses(client),
    endpoints: await gatherEndpoints(client, upstreams),
    updaters: live ? await readUpdaters(added.checks, source) : undefined,
  };
}

/** For each name, the addresses that the cluster's DNS returned to the controller. */
function seenByController({ status }: InstallFacts): Map<string, readonly string[]> {
  const names = status.known ? status.value.names : [];
  return new Map(names.flatMap(({ name, resolved }) => (resolved === undefined ? [] : [[name, resolved] as const])));
}

interface RawConfigMap {
  readonly data?: Readonly<Record<string, string>>;
}

/** The usual place of the cluster DNS's files. */
const USUAL = { namespace: "kube-system", names: ["coredns", "coredns-custom"] };

/**
 * The files of the cluster's CoreDNS: those in the usual ConfigMaps, and those in the given ConfigMaps
 * (`namespace/name`).
 */
async function gatherClusterDns(client: KubeClient, others: readonly string[]): Promise<Fact<readonly DnsFileFacts[]>> {
  const places = new Set([...USUAL.names.map((name) => `${USUAL.namespace}/${name}`), ...others]);
  const files: DnsFileFacts[] = [];
  for (const place of places) {
    const [namespace = "", name = ""] = place.split("/");
    const permission = { verb: "get", resource: "configmaps", namespace, name };
    const found = await readFact<RawConfigMap>(
      permission,
      () => client.get<RawConfigMap>(corePath("configmaps", namespace, name)),
      { value: {} },
    );
    if (!found.known) return found;
    for (const [key, text] of Object.entries(found.value.data ?? {})) files.push({ place, key, text });
  }
  return { known: true, value: files };
}
