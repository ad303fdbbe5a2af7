import { isIPv4, isIPv6 } from "node:net";
import { join } from "node:path";
import { stringify } from "yaml";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus } from "#controller/status.ts";
import { CERT_MANAGER } from "../cluster/addons/cert-manager.ts";
import { NGINX, PLAIN, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { PRODUCT_IMAGE } from "../cluster/images.ts";
import { STACK, statePath } from "../cluster/node/layout.ts";
import { enforcesNetworkPolicies } from "../cluster/node/up.ts";
import { hostsText, OBJECTS } from "../published.ts";
import { narrowNetworkPolicy } from "./network-policy.ts";
import { CLASS, TARGET } from "./shop.ts";

export const SYSTEM = "switchback-system";
export const OPT_IN = "switchback.dev/inject=enabled";
const TOP = join(import.meta.dirname, "..", "..");

/** `config.targets`: all ingress controllers, each with the PROXY protocol version of its load balancer. */
const TARGETS = [
  { balancer: NGINX, name: TARGET, className: CLASS },
  { balancer: TRAEFIK, name: "traefik", className: "traefik" },
  { balancer: PLAIN, name: "plain", className: "plain" },
].map(({ balancer: { namespace, service, protocol }, name, className }) => ({
  name,
  upstream: { service: { namespace, name: service } },
  classes: [className],
  ports: [80, 443].map((port) => ({ port, protocol })),
}));

interface Values {
  readonly profile?: "default" | "small";
  readonly config?: object;
  readonly pods?: object;
  readonly webhook?: object;
  readonly test?: object;
  readonly agent?: object;
  readonly networkPolicy?: object;
  readonly podDns?: object;
  readonly uninstall?: object;
  readonly installCheck?: object;
}

/**
 * Installs Switchback as a user does. `values` are added to those that the cluster needs, which include
 * NetworkPolicies if the cluster enforces them.
 */
export async function installSwitchback(cluster: Cluster, values: Values = {}): Promise<void> {
  await applyChart(cluster, values);
  await cluster.releaseRuns("switchback", SYSTEM, AGENTS);
  await webhookAnswers(cluster);
}

/** Runs `helm upgrade --install` with this checkout's chart and image, and waits for nothing. */
export async function applyChart(cluster: Cluster, { config = {}, ...values }: Values): Promise<void> {
  // The shop alone claims more names than a namespace may have by default (20-resolvers.test.ts).
  const policy = { maxNamesPerNamespace: 500 };
  const networkPolicy = (await enforcesNetworkPolicies()) ? narrowNetworkPolicy() : { enabled: false };
  // Most tests wait for what they need, and some run while the webhook does not answer. 77-chart.test.ts tests the
  // check.
  const installCheck = { enabled: false };
  const image = { ...PRODUCT_IMAGE, pullPolicy: "Never" };
  const all = { image, networkPolicy, installCheck, config: { targets: TARGETS, policy, ...config }, ...values };
  const flags = ["--namespace", SYSTEM, "--create-namespace", "--values", "-"];
  const args = ["upgrade", "--install", "switchback", join(TOP, "manifests", "chart"), ...flags];
  const { code, stderr } = await cluster.tool("helm", args, stringify(all));
  if (code !== 0) throw new Error(`helm ${args.join(" ")}: ${stderr.trim()}`);
}

export const AGENTS = "switchback-agent";

/** Values that enable the agents. */
export function withAgent(config: object = {}): { agent: object; config: object } {
  return { agent: { enabled: true }, config: { agent: { kubeletRoot: statePath("kubelet") }, ...config } };
}

/** The ClusterIP that a target's names lead to, once the controller has made its front Service. */
export async function frontAddress(cluster: Cluster, target: string): Promise<string> {
  return await cluster.until(`the front Service of ${target}`, 30, async () => {
    const { spec } = await cluster.get<{ spec: { clusterIP?: string } }>(
      "-n",
      SYSTEM,
      "service",
      `switchback-${target}`,
    );
    return spec.clusterIP;
  });
}

/**
 * All ClusterIPs of a target's front Service. If the tests use only IPv4, the first one, because a user's cluster may
 * have more.
 */
export async function frontAddresses(cluster: Cluster, target: string): Promise<string[]> {
  const first = await frontAddress(cluster, target);
  return STACK === "ipv4" ? [first] : await clusterIPs(cluster, SYSTEM, `switchback-${target}`);
}

export async function clusterIPs(cluster: Cluster, namespace: string, service: string): Promise<string[]> {
  const { spec } = await cluster.get<{ spec: { clusterIPs: string[] } }>("-n", namespace, "service", service);
  return spec.clusterIPs;
}

/** What the clients print for a name with these addresses. */
export function resolvedLine(name: string, addresses: readonly string[]): string {
  return [name, ...addresses.filter(isIPv4), ...addresses.filter(isIPv6)].join(" ");
}

/** The ConfigMaps of Switchback's namespace. */
export async function configMaps(cluster: Cluster): Promise<readonly object[]> {
  return (await cluster.get<{ items: object[] }>("-n", SYSTEM, "configmaps")).items;
}

/** The published map in the form of hosts(5), without comments. */
export async function publishedMap(cluster: Cluster): Promise<string> {
  return hostsText(await configMaps(cluster));
}

/** The data of the webhook's certificate, or of the CA that signs it, in base64. */
export async function secretData(cluster: Cluster, which: "serving" | "ca"): Promise<Record<string, string>> {
  return (await cluster.get<{ data: Record<string, string> }>("-n", SYSTEM, "secret", OBJECTS[which])).data;
}

/**
 * The status of the leading controller. The API server's proxy picks any replica, so this asks until a leader
 * answers.
 */
export async function leaderStatus(cluster: Cluster, ...flags: string[]): Promise<FullStatus> {
  return await cluster.until("a controller that leads", 30, async () => {
    // Exit code 1 means that a workload is stuck, which is fine here.
    const { stdout, stderr } = await cluster.switchback(
      "status",
      "-o",
      "json",
      "--switchback-namespace",
      SYSTEM,
      ...flags,
    );
    if (stdout === "") throw new Error(stderr);
    const status = JSON.parse(stdout) as FullStatus;
    return status.leader ? status : undefined;
  });
}

/** The opted-in workloads of cert-manager, as the leader sees them. */
export async function certManagerWorkloads(cluster: Cluster): Promise<WorkloadStatus[]> {
  const { running } = await leaderStatus(cluster);
  return (running?.workloads ?? []).filter(({ namespace }) => namespace === CERT_MANAGER);
}

/** Waits until each workload of cert-manager has the current names. */
export async function certManagerInStep(cluster: Cluster): Promise<void> {
  await cluster.until("all of cert-manager is in step", 120, async () => {
    const all = await certManagerWorkloads(cluster);
    return (all.length > 0 && all.every(({ standing }) => standing === "in-step")) || undefined;
  });
}

/** Removes the remains of an earlier run of Switchback, even if pods still have its addresses. */
export async function removeSwitchback(cluster: Cluster): Promise<void> {
  await cluster.kubectl("delete", "mutatingwebhookconfiguration", "switchback-webhook", "--ignore-not-found");
  await cluster.tool("helm", [
    "uninstall",
    "switchback",
    "--namespace",
    SYSTEM,
    "--ignore-not-found",
    "--wait",
    "--no-hooks",
  ]);
  await cluster.kubectl("delete", "namespace", SYSTEM, AGENTS, "--ignore-not-found", "--timeout=120s");
}

/** Restores cert-manager as it is without Switchback. */
export async function restoreCertManager(cluster: Cluster): Promise<void> {
  await cluster.kubectl("label", "namespace", CERT_MANAGER, "switchback.dev/inject-");
  const pods = await cluster.kubectl("-n", CERT_MANAGER, "get", "pods", "-o", "yaml");
  if (pods.includes("switchback.dev/injected")) await restartAllOfCertManager(cluster);
}

/** Restarts only cert-manager's controller, which does the self-checks, as the README says. */
export async function restartCertManager(cluster: Cluster): Promise<void> {
  await cluster.kubectl("-n", CERT_MANAGER, "rollout", "restart", "deployment/cert-manager");
  await cluster.rolledOut(CERT_MANAGER, "deployment/cert-manager");
}

/** Restarts all workloads of cert-manager that were injected. */
export async function restartAllOfCertManager(cluster: Cluster): Promise<void> {
  await cluster.kubectl("-n", CERT_MANAGER, "rollout", "restart", "deployment");
  const deployments = ["cert-manager", "cert-manager-cainjector", "cert-manager-webhook"];
  await cluster.rolledOut(CERT_MANAGER, ...deployments.map((name) => `deployment/${name}`));
}

/**
 * Waits until a new pod would be injected. Ready webhook pods are not enough: kube-proxy follows a second later.
 * Until then, the API server finds nobody at the Service and admits pods unchanged.
 */
export async function webhookAnswers(cluster: Cluster): Promise<void> {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "would-be", labels: { "switchback.dev/inject": "enabled" } },
    spec: { containers: [{ name: "main", image: "none" }] },
  };
  const create = ["-n", "default", "create", "--dry-run=server", "-o", "yaml", "-f", "-"];
  await cluster.until("a pod would be injected", 30, async () => {
    const { stdout } = await cluster.tool("kubectl", create, stringify(pod));
    return stdout.includes("switchback.dev/revision") || undefined;
  });
}
