import type { AddedCheck } from "#doctor/added-checks.ts";
import { checkDeployment } from "#doctor/checks/deployments.ts";
import type { ClusterFacts, PodInfo, ServiceFacts } from "#doctor/facts.ts";
import { type Finding, findingsOf } from "#doctor/findings.ts";
import { listPods } from "#doctor/gather-pods.ts";
import { isInstalled } from "#doctor/is-installed.ts";
import { RESOLVERS_KEY } from "#hostmap/metadata-keys.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { POD_DNS_SECTION, RESOLVERS } from "./config.ts";

const { ok, warning, broken, unknown } = findingsOf("pod-dns");

const LOST = "look-ups of pods with pod DNS depend on the other resolver alone";

export const POD_DNS_CHECK: AddedCheck = { prepare: async () => checkResolvers };

/**
 * Checks whether the resolvers of pod DNS exist and are ready, and whether the addresses that pods have are theirs.
 * Finds nothing if pod DNS is not enabled and no pod uses it.
 */
export function checkResolvers(facts: ClusterFacts): Finding[] {
  const { install, pods, services, namespace } = facts;
  const installed = install.config.known ? install.config.value : undefined;
  const config = installed && settingsOf(installed, POD_DNS_SECTION);
  const holders = pods.known ? pods.value.filter(({ annotations }) => annotations[RESOLVERS_KEY] !== undefined) : [];
  if (isInstalled(facts) === false && holders.length === 0) return [];
  if (config?.enabled !== true && holders.length === 0) return [];
  if (!services.known) return [unknown("pod DNS", services.reason.code, services.reason.text)];
  const ours = services.value.filter((service) => service.namespace === namespace && RESOLVERS.includes(service.name));
  const findings = config?.enabled === true ? RESOLVERS.flatMap((name) => checkResolver(name, ours, facts)) : [];
  return [...findings, ...checkHolders(holders, ours)];
}

function checkResolver(name: string, services: readonly ServiceFacts[], facts: ClusterFacts): Finding[] {
  const { install, namespace } = facts;
  const cure = "reapply the chart, and restart the pods that have it as their resolver";
  const service = services.find((one) => one.name === name);
  const found =
    service === undefined
      ? [broken(`Service ${namespace}/${name}`, "resolver-missing", `it does not exist: ${LOST}`, cure)]
      : [];
  const { deployments } = install;
  // If the Deployments cannot be read, another check reports it once, for all of them.
  if (!deployments.known) return found;
  const deployment = deployments.value.find((one) => one.name === name);
  return [...found, checkDeployment(`Deployment ${namespace}/${name}`, deployment, LOST)];
}

/**
 * Checks the addresses that pods have. A freed ClusterIP may be given to another Service. A pod that still asks it
 * has half a DNS, or none.
 */
function checkHolders(holders: readonly PodInfo[], services: readonly ServiceFacts[]): Finding[] {
  if (holders.length === 0) return [];
  const addresses = new Set(services.flatMap(({ clusterIPs }) => clusterIPs));
  const lost = (pod: PodInfo) => resolversOf(pod).filter((address) => !addresses.has(address)).length;
  const cure = "restart them: `switchback restart NAMESPACE`, or `kubectl rollout restart` of their owners";
  const without = holders.filter((pod) => lost(pod) > 0 && lost(pod) === resolversOf(pod).length);
  const halved = holders.filter((pod) => lost(pod) > 0 && !without.includes(pod));
  const findings = [
    without.length === 0
      ? []
      : broken(
          "pods",
          "pod-without-dns",
          `${without.length} pod(s) without any DNS: their resolvers are not there any more: ${listPods(without)}`,
          cure,
        ),
    halved.length === 0
      ? []
      : warning(
          "pods",
          "pod-resolver-lost",
          `${halved.length} pod(s) with a resolver that is not there any more: ${listPods(halved)}`,
          cure,
        ),
  ].flat();
  return findings.length > 0
    ? findings
    : [ok("pods", "extra-works", `${holders.length} pod(s) have resolvers that are there`)];
}

/** Reads the addresses that webhook/inject-dns.ts writes. */
function resolversOf({ annotations }: PodInfo): string[] {
  return (annotations[RESOLVERS_KEY] ?? "").split(" ");
}
