import type { KubeClient } from "#lib/kube/client.ts";
import { type AddedChecks, NOTHING_ADDED } from "./added-checks.ts";
import { rulesOf } from "./checks/opt-in.ts";
import type { ClusterFacts } from "./facts.ts";
import { gatherAdmission } from "./gather-admission.ts";
import { gatherEndpoints, gatherNamespaces, gatherSelfChecks, gatherServices } from "./gather-cluster.ts";
import { gatherInstall } from "./gather-install.ts";
import { gatherNames } from "./gather-names.ts";
import { gatherPods } from "./gather-pods.ts";
import { targetsOf, upstreamService } from "./targets.ts";

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
  const [services, namespaces, selfChecks, install, admission] = await Promise.all([
    gatherServices(client),
    gatherNamespaces(client),
    gatherSelfChecks(client),
    gatherInstall(client, namespace, added.sections),
    gatherAdmission(client, probeNamespace),
  ]);
  const config = install.config.known ? install.config.value : undefined;
  const source = { client, namespace, config, now: now() };
  const upstreams = targetsOf({ install }).flatMap((target) => upstreamService(target) ?? []);
  const [names, pods, endpoints, checks] = await Promise.all([
    gatherNames({ client, namespace, install }),
    gatherPods(client, namespaces, rulesOf({ install, namespace })),
    gatherEndpoints(client, upstreams),
    Promise.all(added.checks.map((check) => check.prepare(source))),
  ]);
  const own = { namespace, probeNamespace, probe: undefined, added: checks };
  return { ...own, services, names, namespaces, selfChecks, install, admission, pods, endpoints };
}
