import type { TestContext } from "node:test";
import { releasePods, showPlan, type UninstallOptions } from "#cli/uninstall/release-pods.ts";
import { CONFIG_NAME } from "#lib/documents/installed-config.ts";
import { MemoryServer } from "./memory-server.ts";
import { skipWaits } from "./skipped-waits.ts";

/** Where the tests install Switchback. */
export const NAMESPACE = "ours";
/** ClusterIP of the front Service `switchback-nginx`. */
export const FRONT_IP = "198.51.100.9";
export const WEBHOOK_PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";
export const AGENT_PATH = "/apis/apps/v1/namespaces/switchback-agent/daemonsets/switchback-agent";
export const AGENT_LEASES = "/apis/coordination.k8s.io/v1/namespaces/switchback-agent/leases";
export const AGENT_LABELS = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "agent" };

/** Path of a collection in Switchback's namespace. */
export const ours = (resource: string) => `/api/v1/namespaces/${NAMESPACE}/${resource}`;

/**
 * An API server with an installation of Switchback that may restart pods in `shop`. It has one front Service and a
 * webhook configuration, but no agents.
 */
export function installed(config = "restart: { namespaces: [shop] }"): MemoryServer {
  const api = new MemoryServer();
  addConfig(api, { "config.yaml": config });
  const labels = { "switchback.dev/target": "nginx" };
  api.add(ours("services"), "switchback-nginx", { metadata: { labels }, spec: { clusterIPs: [FRONT_IP] } });
  api.add(WEBHOOK_PATH.slice(0, WEBHOOK_PATH.lastIndexOf("/")), "switchback-webhook");
  return api;
}

/** Adds the ConfigMap of the configuration, or replaces it. */
export function addConfig(api: MemoryServer, data?: object): void {
  api.add(ours("configmaps"), CONFIG_NAME, data === undefined ? {} : { data });
}

/** The owner of a pod: `["ReplicaSet", "web-5d4f6"]`. */
export type Owner = readonly [kind: string, name: string];

/**
 * Adds a running pod with the front's address in its hosts file. A pod of a ReplicaSet belongs to a Deployment with
 * the hash `5d4f6`.
 */
export function addHolder(api: MemoryServer, namespace: string, name: string, owner?: Owner, ip = FRONT_IP): void {
  const apiVersion = owner?.[0] === "Job" ? "batch/v1" : "apps/v1";
  const ownerReferences = owner === undefined ? [] : [{ apiVersion, kind: owner[0], name: owner[1], controller: true }];
  api.add(`/api/v1/namespaces/${namespace}/pods`, name, {
    metadata: { labels: { "pod-template-hash": "5d4f6" }, ownerReferences },
    spec: { hostAliases: [{ ip }] },
    status: { phase: "Running" },
  });
}

/** Adds the Deployment `name` with one pod that holds the front's address. */
export function addDeployment(api: MemoryServer, namespace: string, name: string, spec: object = {}): void {
  api.add(`/apis/apps/v1/namespaces/${namespace}/deployments`, name, {
    metadata: { uid: `uid-${name}`, resourceVersion: "7" },
    spec,
  });
  addHolder(api, namespace, `${name}-old`, ["ReplicaSet", `${name}-5d4f6`]);
}

export interface UninstallRun extends Partial<Pick<UninstallOptions, "force" | "parts">> {
  readonly timeoutMs?: number;
  readonly onWait?: (elapsed: number) => void;
}

/** Runs the release of pods. Returns the printed lines, the time of each in seconds, and the waits. */
export function runUninstall(
  t: TestContext,
  api: MemoryServer,
  { onWait, timeoutMs = 60_000, ...options }: UninstallRun = {},
) {
  const time = skipWaits(t, onWait);
  const said: string[] = [];
  const saidAt: number[] = [];
  const say = (line: string) => {
    said.push(line);
    saidAt.push(time.elapsed() / 1000);
  };
  const timeLeft = () => Math.max(0, timeoutMs - time.elapsed());
  return { done: releasePods({ ...optionsFor(api, say), timeLeft, ...options }), said, saidAt, time };
}

/** Prints the plan. Returns its lines, and what is wrong. */
export async function planOf(api: MemoryServer, parts: UninstallOptions["parts"] = []) {
  const said: string[] = [];
  const problem = await showPlan({ ...optionsFor(api, (line) => said.push(line)), parts });
  return { said, problem };
}

function optionsFor(api: MemoryServer, say: UninstallOptions["say"]): UninstallOptions {
  return {
    client: api.client,
    namespace: NAMESPACE,
    force: false,
    timeLeft: () => 0,
    say,
    canAsk: false,
    parts: [],
  };
}
