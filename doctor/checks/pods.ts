import { HOSTS_KEY, OWNED_KEY, REVISION_KEY } from "#hostmap/metadata-keys.ts";
import { isByDns } from "#hostmap/pod-dns-marks.ts";
import { createSelector, DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { listSome } from "#lib/errors/printable.ts";
import { isOptedIn } from "#lib/workloads/namespaces.ts";
import { WORKLOAD_NAME } from "#lib/workloads/owners.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { type ClusterFacts, objectKey, type PodInfo } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "../is-installed.ts";
import { isLive, isUpdated } from "../live.ts";
import { optInRulesOf } from "../opt-in-rules.ts";

const { ok, warning, broken, unknown } = findingsOf("pods");

/** Maximum number of pods in a finding. */
const MAX_LISTED = 5;

type PodState = "in-step" | "updater-unknown" | "stale" | "not-injected" | "address-lost" | "left-over";

/** Whether running pods have the names and addresses of the published map. */
export function checkPods(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { pods, namespaces, install } = facts;
  if (!pods.known) return [unknown("pods", pods.reason.code, pods.reason.text)];
  if (!namespaces.known) return [unknown("pods", namespaces.reason.code, namespaces.reason.text)];
  if (!install.map.known) return [unknown("pods", install.map.reason.code, install.map.reason.text)];
  const published = install.map.value;
  const map = published?.map;
  if (published === undefined || map === undefined) {
    return [
      broken("pods", "map-missing", "there is no published map", "check that a controller is the leader, and its log"),
    ];
  }
  if ("code" in map) return [unknown("pods", map.code, map.text, "the controller may be publishing: run again")];
  // Unused targets stay published for pods that still hold their addresses.
  const relayed = (install.targets.known ? install.targets.value : undefined) ?? [];
  const addresses = [...published.targets, ...relayed].flatMap(({ clusterIPs }) => clusterIPs);
  const stateOf = podStates(facts, map, new Set(addresses));
  const groups = new Map<PodState, PodInfo[]>();
  for (const pod of pods.value) {
    const state = stateOf(pod);
    if (state !== undefined) groups.set(state, [...(groups.get(state) ?? []), pod]);
  }
  return [...describe(groups, facts), ...checkOwnAliases(pods.value, map)];
}

/** Kinds whose manifests have a pod template. */
const TEMPLATED = /^(?:Deployment|StatefulSet|DaemonSet)$/;

/**
 * Reports names that a manifest maps itself. The webhook does not change these aliases, so they never follow the map.
 */
function checkOwnAliases(pods: readonly PodInfo[], map: PublishedMap): Finding[] {
  const isMapped = (name: string) => map.addressesOf(name.toLowerCase()) !== undefined;
  const having = pods.filter(({ ownNames }) => ownNames?.some(isMapped));
  const [first] = having;
  if (first === undefined) return [];
  const name = first.ownNames?.find(isMapped);
  const evidence =
    `the manifests of ${having.length} pod(s) map names of the map, such as ${name} of the first: ` +
    `${listPods(having)}`;
  const command = removalOf(first, first.ownNames?.every(isMapped) === true);
  const cure =
    `remove these hostAliases from the manifests${command && `, for the first: \`${command}\``} ` +
    "(docs/migrating.md)";
  return [warning("pods", "pod-own-aliases", evidence, cure)];
}

/**
 * The command that removes hostAliases from a pod's owner. Empty if the owner's kind or name is not
 * valid: a pod's creator can write any text there.
 */
function removalOf({ owner }: PodInfo, hasOnlyMapped: boolean): string {
  const [namespace, kind = "", name = "", ...others] = owner.split("/");
  if (!/^[A-Za-z0-9]+$/.test(kind) || !WORKLOAD_NAME.test(name) || others.length > 0) return "";
  const on = `kubectl -n ${namespace}`;
  return TEMPLATED.test(kind) && hasOnlyMapped
    ? `${on} patch ${kind.toLowerCase()} ${name} --type json -p ` +
        `'[{"op":"remove","path":"/spec/template/spec/hostAliases"}]'`
    : `${on} edit ${kind.toLowerCase()} ${name}`;
}

/** Returns a function that gives a pod's state; undefined if the pod has nothing to do with Switchback. */
function podStates(
  facts: ClusterFacts,
  map: PublishedMap,
  addresses: ReadonlySet<string>,
): (pod: PodInfo) => PodState | undefined {
  const rules = optInRulesOf(facts);
  const mappingState = mappingStates(facts, map);
  const namespaces = facts.namespaces.known ? facts.namespaces.value : undefined;
  return (pod) => {
    const optedIn = isOptedIn(podFacts({ metadata: pod }), namespaces?.get(pod.namespace), rules);
    const owned = ownedAddresses(pod.annotations[OWNED_KEY]);
    if (owned.some((address) => pod.aliasAddresses.includes(address) && !addresses.has(address))) return "address-lost";
    if (!optedIn) return owned.length > 0 ? "left-over" : undefined;
    return mappingState(pod);
  };
}

/**
 * Returns a function that compares an opted-in pod with the map. An updater changes only the pod's hosts file, so its
 * report counts too.
 */
function mappingStates(facts: ClusterFacts, map: PublishedMap): (pod: PodInfo) => PodState {
  const config = facts.install.config.known ? facts.install.config.value : undefined;
  const choose = createSelector(map, config?.inject.maxNames ?? DEFAULT_MAX_NAMES);
  const live = isLive(facts);
  return (pod) => {
    const revision = pod.annotations[REVISION_KEY];
    if (isByDns(revision)) return "in-step";
    const podRevision = choose(pod.annotations[HOSTS_KEY]).revision;
    if (revision === podRevision) return "in-step";
    const applied = live(pod) ? isUpdated(facts, pod, { podRevision, mapRevision: map.revision }) : false;
    if (applied !== false) return applied ? "in-step" : "updater-unknown";
    return revision === undefined ? "not-injected" : "stale";
  };
}

/** The addresses in `198.51.100.9 x1, 2001:db8::9 x1 (402fbc344eb3)`, as lib/hostmap/managed-aliases.ts writes it. */
function ownedAddresses(text: string | undefined): string[] {
  return [...(text ?? "").matchAll(/([0-9a-fA-F:.]+) x\d+/g)].map(([, address = ""]) => address);
}

function describe(groups: ReadonlyMap<PodState, readonly PodInfo[]>, { updaters }: ClusterFacts): Finding[] {
  const restart = "restart them: `switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners";
  const findings = [
    about(
      groups.get("not-injected"),
      broken,
      "pod-not-injected",
      "opted in, but were not injected: they are older than the opt-in, or the webhook was unavailable",
      restart,
    ),
    about(
      groups.get("address-lost"),
      broken,
      "pod-address-lost",
      "with an address that no longer belongs to a target and may now be another Service's",
      restart,
    ),
    about(groups.get("stale"), warning, "pod-stale", "with names or addresses of an earlier map", restart),
    about(groups.get("left-over"), warning, "pod-left-over", "with a mapping, but no longer opted in", restart),
  ].flat();
  const unknownPods = groups.get("updater-unknown");
  if (unknownPods !== undefined && updaters?.known === false) {
    const evidence =
      `it is unknown whether the agents keep ${unknownPods.length} pod(s) ` + `current: ${updaters.reason.text}`;
    findings.push(unknown("pods", updaters.reason.code, evidence));
  }
  const good = groups.get("in-step")?.length ?? 0;
  if (good > 0) return [...findings, ok("pods", "pods-in-step", `${good} opted-in pod(s) match the published map`)];
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
  return [report("pods", code, `${pods.length} pod(s) ${what}: ${listPods(pods)}`, cure)];
}

/** The names of the first pods, and the number of the others. */
export function listPods(pods: readonly PodInfo[]): string {
  return listSome(pods, MAX_LISTED, objectKey);
}
