import { configSchema } from "../../config/schema.ts";
import { HOSTS_KEY, OWNED_KEY, REVISION_KEY } from "../../hostmap/metadata-keys.ts";
import { createSelector } from "../../hostmap/select-hosts.ts";
import type { PublishedMap } from "../../hostmap/types.ts";
import { isOptedIn } from "../../workloads/opt-in.ts";
import { podFacts } from "../../workloads/pods.ts";
import { type ClusterFacts, objectKey, type PodInfo } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { appliedByAgent, isLive } from "../live.ts";
import { isInstalled } from "./install.ts";
import { namespacesExcludedBy } from "./opt-in.ts";

const { ok, warning, broken, unknown } = findingsOf("pods");

/** Pods that a finding names. */
const MAX_NAMED = 5;

type Standing = "in-step" | "agent-unknown" | "stale" | "not-injected" | "address-lost" | "left-over";

/** Whether running pods hold what the published map says. */
export function checkPods(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { pods, namespaces, install } = facts;
  if (!pods.known) return [unknown("pods", pods.reason.code, pods.reason.text)];
  if (!namespaces.known) return [unknown("pods", namespaces.reason.code, namespaces.reason.text)];
  if (!install.map.known) return [unknown("pods", install.map.reason.code, install.map.reason.text)];
  const published = install.map.value;
  const map = published?.map;
  if (published === undefined || map === undefined) {
    return [broken("pods", "map-missing", "there is no published map", "see that a controller leads, and its log")];
  }
  if ("code" in map) return [unknown("pods", map.code, map.text, "a publication may be under way: ask again")];
  // Targets that no name leads to any more are relayed on for the pods that hold their addresses.
  const relayed = (install.targets.known ? install.targets.value : undefined) ?? [];
  const addresses = [...published.index.targets, ...relayed].flatMap(({ clusterIPs }) => clusterIPs);
  const standingOf = judgePod(facts, map, new Set(addresses));
  const groups = new Map<Standing, PodInfo[]>();
  for (const pod of pods.value) {
    const standing = standingOf(pod);
    if (standing !== undefined) groups.set(standing, [...(groups.get(standing) ?? []), pod]);
  }
  return describe(groups, facts);
}

/** How a pod stands; undefined where it is none of ours. */
function judgePod(
  facts: ClusterFacts,
  map: PublishedMap,
  addresses: ReadonlySet<string>,
): (pod: PodInfo) => Standing | undefined {
  const excluded = new Set(namespacesExcludedBy(facts));
  const follows = judgeMapping(facts, map);
  const namespaces = facts.namespaces.known ? facts.namespaces.value : undefined;
  return (pod) => {
    const optedIn = isOptedIn(podFacts({ metadata: pod }), namespaces?.get(pod.namespace), excluded);
    const owned = ownedAddresses(pod.annotations[OWNED_KEY]);
    if (owned.some((address) => pod.aliasAddresses.includes(address) && !addresses.has(address))) return "address-lost";
    if (!optedIn) return owned.length > 0 ? "left-over" : undefined;
    return follows(pod);
  };
}

/** Whether an opted-in pod has what it would get today. The agent writes hosts files, not annotations: it is asked apart. */
function judgeMapping(facts: ClusterFacts, map: PublishedMap): (pod: PodInfo) => Standing {
  const config = facts.install.config.known ? facts.install.config.value : undefined;
  const choose = createSelector(map, (config?.inject ?? configSchema.parse({}).inject).maxNames);
  const live = isLive(facts);
  return (pod) => {
    const revision = pod.annotations[REVISION_KEY];
    if (revision === choose(pod.annotations[HOSTS_KEY]).revision) return "in-step";
    const applied = live(pod) ? appliedByAgent(facts, pod, map.revision) : false;
    if (applied !== false) return applied ? "in-step" : "agent-unknown";
    return revision === undefined ? "not-injected" : "stale";
  };
}

/** The addresses in `198.51.100.9 x1, 2001:db8::9 x1 (402fbc344eb3)`, as hostmap/managed-aliases.ts writes it. */
function ownedAddresses(text: string | undefined): string[] {
  return [...(text ?? "").matchAll(/([0-9a-fA-F:.]+) x\d+/g)].map(([, address = ""]) => address);
}

function describe(groups: ReadonlyMap<Standing, readonly PodInfo[]>, { agents }: ClusterFacts): Finding[] {
  const restart = "make them anew: `switchback restart NAMESPACE`, or `kubectl rollout restart` of what owns them";
  const findings = [
    about(
      groups.get("not-injected"),
      broken,
      "pod-not-injected",
      "opted in, but without a mapping: made before that, or while the webhook was away",
      restart,
    ),
    about(
      groups.get("address-lost"),
      broken,
      "pod-address-lost",
      "with an address that leads to no target any more: it may be a stranger's",
      restart,
    ),
    about(groups.get("stale"), warning, "pod-stale", "with names or addresses of an earlier map", restart),
    about(groups.get("left-over"), warning, "pod-left-over", "that did not opt in (any more), with a mapping", restart),
  ].flat();
  const untold = groups.get("agent-unknown");
  if (untold !== undefined && agents?.known === false) {
    const evidence = `whether the agents keep ${untold.length} pod(s) current cannot be told: ${agents.reason.text}`;
    findings.push(unknown("pods", agents.reason.code, evidence));
  }
  const good = groups.get("in-step")?.length ?? 0;
  if (good > 0)
    return [...findings, ok("pods", "pods-in-step", `${good} opted-in pod(s) hold what the published map says`)];
  return findings.length > 0 ? findings : [ok("pods", "no-pods", "there are no opted-in pods")];
}

type Report = typeof broken;

function about(
  pods: readonly PodInfo[] | undefined,
  report: Report,
  code: string,
  what: string,
  cure: string,
): Finding[] {
  if (pods === undefined) return [];
  const named = pods.slice(0, MAX_NAMED).map(objectKey).join(", ");
  const rest = pods.length > MAX_NAMED ? ` and ${pods.length - MAX_NAMED} more` : "";
  return [report("pods", code, `${pods.length} pod(s) ${what}: ${named}${rest}`, cure)];
}
