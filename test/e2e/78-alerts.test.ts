import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { parse } from "yaml";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { ADDRESSES, ADMIN_KUBECONFIG } from "../cluster/node/layout.ts";
import { inNamespace } from "../cluster/node/run.ts";
import { withCluster } from "../cluster/whole.ts";
import { hastyAlerts, Prometheus, type ScrapeTarget } from "../integration/prometheus/prometheus.ts";
import { OBJECTS } from "../published.ts";
import { clusterTarget } from "./cluster-target.ts";
import { optIn } from "./opted-in.ts";
import { programCommand, programDeployment } from "./programs/run.ts";
import { ingress, openShop, SHOP } from "./shop.ts";
import { AGENTS, frontAddress, installSwitchback, leaderStatus, OPT_IN, SYSTEM, webhookAnswers } from "./switchback.ts";

// Each alert of the chart fires on a real node when its fault is planted, and resolves when the fault is repaired. A
// real Prometheus scrapes the pods. Durations of minutes in the alerts are seconds here.

const PORTS: Readonly<Record<string, number>> = { controller: 8080, webhook: 8081, proxy: 8082, agent: 8083 };
const LIVELY = "alerts-lively";
const LATE = "alerts-late";
const CONNECTIONS = 10;

let cluster: Cluster;
let prometheus: Prometheus;
let credentials: string;
const clients = new Set<ChildProcess>();

const values = (certs: object) => ({
  agent: { enabled: true },
  config: {
    agent: { kubeletRoot: clusterTarget().kubeletRoot, renewSeconds: 1 },
    pods: { agentSilenceSeconds: 5 },
    map: { vanishSeconds: 0 },
    restart: { namespaces: [LATE], debounceSeconds: 1, minIntervalSeconds: 1 },
    proxy: { maxConnections: CONNECTIONS, maxConnectionsPerSource: CONNECTIONS },
    certs,
  },
});

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  await installSwitchback(cluster, values({ leafDays: 3 }));
  await optIn(cluster);
  await openNamespace(LIVELY, { "switchback.dev/on-change": "live" });
  credentials = await mkdtemp(join(tmpdir(), "switchback-alerts-"));
  prometheus = await Prometheus.start({
    rules: await hastyAlerts(),
    jobs: [await apiServerJob()],
    within: (command, args) => inNamespace("node", command, args),
  });
  await scrapeAll();
});
after(async () => {
  stopClients();
  await prometheus?.stop();
  if (credentials !== undefined) await rm(credentials, { recursive: true, force: true });
  await cluster.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "no-map", ...IF_THERE);
  await cluster.kubectl("-n", SHOP, "delete", "ingress", "alerts", "alerts-one", ...IF_THERE);
  await scale(NGINX.namespace, NGINX.service, 1);
  for (const component of ["controller", "webhook", "proxy"]) await scale(SYSTEM, `switchback-${component}`, 2);
  await cluster.kubectl("delete", "namespace", LIVELY, LATE, ...IF_THERE);
});

const IF_THERE = ["--ignore-not-found", "--timeout=120s"];

/**
 * The API server counts failed calls of webhooks. Only the administrator may read its metrics, so Prometheus gets the
 * token in a file.
 */
async function apiServerJob(): Promise<object> {
  const { clusters, users } = parse(await readFile(ADMIN_KUBECONFIG, "utf8"));
  const file = async (name: string, content: string | Buffer) => {
    const path = join(credentials, name);
    await writeFile(path, content, { mode: 0o600 });
    return path;
  };
  const authority = Buffer.from(clusters[0].cluster["certificate-authority-data"], "base64");
  return {
    job_name: "apiserver",
    scheme: "https",
    scrape_interval: "2s",
    scrape_timeout: "2s",
    tls_config: { ca_file: await file("ca.pem", authority) },
    authorization: { credentials_file: await file("token", users[0].user.token) },
    static_configs: [{ targets: [`${ADDRESSES.node}:6443`] }],
  };
}

interface Pod {
  metadata: { name: string; labels?: Record<string, string>; deletionTimestamp?: string };
  status: { podIP?: string };
}

/** Makes Prometheus scrape the pods that exist now. */
async function scrapeAll(): Promise<void> {
  const targets: ScrapeTarget[] = [];
  for (const namespace of [SYSTEM, AGENTS]) {
    const { items } = await cluster.get<{ items: Pod[] }>("-n", namespace, "pods");
    for (const { metadata, status } of items) {
      const component = metadata.labels?.["app.kubernetes.io/component"] ?? "";
      const port = PORTS[component];
      if (port === undefined || status.podIP === undefined || metadata.deletionTimestamp !== undefined) continue;
      targets.push({
        job: `switchback-${component}`,
        instance: metadata.name,
        address: `${status.podIP}:${port}`,
      });
    }
  }
  await prometheus.scrape(targets);
}

async function scale(namespace: string, deployment: string, replicas: number): Promise<void> {
  await cluster.kubectl("-n", namespace, "scale", `deployment/${deployment}`, `--replicas=${replicas}`);
  await cluster.rolledOut(namespace, `deployment/${deployment}`);
}

/** Checks that an alert fires without the pods of a Deployment, and resolves when they are back. */
async function firesWithout(
  alert: string,
  component: string,
  meanwhile: () => Promise<unknown> = async () => {},
): Promise<void> {
  await scale(SYSTEM, `switchback-${component}`, 0);
  // Draining pods are not scraped either.
  await scrapeAll();
  await meanwhile();
  await prometheus.fires(alert);
  await scale(SYSTEM, `switchback-${component}`, 2);
  await scrapeAll();
  await prometheus.resolves(alert);
}

async function openNamespace(name: string, annotations: Record<string, string> = {}): Promise<void> {
  const labels = { [OPT_IN.split("=")[0] ?? ""]: "enabled" };
  await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name, labels, annotations } });
  await cluster.apply(programDeployment(name, "web", programCommand("client", "sleep")));
  await cluster.rolledOut(name, "deployment/web");
}

/** An Ingress of the shop with many hosts. */
function ingressOf(hosts: readonly string[]): KubeObject {
  const one = ingress("alerts", "", "nginx");
  const { rules, ...spec } = one.spec as { rules: Array<{ http: object }> };
  return { ...one, spec: { ...spec, rules: hosts.map((host) => ({ ...rules[0], host })) } };
}

/** Keeps this number of connections open to a front Service. Each is made again when it ends. */
function startClients(count: number, address: string): void {
  const [program, args] = inNamespace("node", process.execPath, ["-e", CLIENTS, String(count), address]);
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "inherit"] });
  clients.add(child);
}

const CLIENTS = `
const [count, host] = process.argv.slice(1);
const open = () => {
  const socket = require("node:net").connect(80, host);
  socket.on("error", () => {});
  socket.on("close", () => setTimeout(open, 200));
};
for (let index = 0; index < Number(count); index++) open();
`;

function stopClients(): void {
  for (const child of clients) child.kill("SIGKILL");
  clients.clear();
}

test("SwitchbackCertificateExpiring", async () => {
  await cluster.kubectl("-n", SYSTEM, "delete", "secret", OBJECTS.serving);
  await prometheus.fires("SwitchbackCertificateExpiring");
});

test("no other alert fires for a healthy install", async () => {
  await webhookAnswers(cluster);
  await cluster.until("no other alert", 120, async () => {
    const names = (await prometheus.firing()).map(({ alertname }) => alertname);
    return names.every((name) => name === "SwitchbackCertificateExpiring") || undefined;
  });
});

test("SwitchbackTargetUnreachable, while clients connect and no ingress controller runs", async () => {
  await scale(NGINX.namespace, NGINX.service, 0);
  startClients(2, await frontAddress(cluster, clusterTarget().target));
  const { target } = await prometheus.fires("SwitchbackTargetUnreachable");
  assert.equal(target, clusterTarget().target);
  await scale(NGINX.namespace, NGINX.service, 1);
  await prometheus.resolves("SwitchbackTargetUnreachable");
  stopClients();
});

test("SwitchbackLimitReached and SwitchbackConnectionsRefused, while others hold all connections", async () => {
  startClients(4 * CONNECTIONS, await frontAddress(cluster, clusterTarget().target));
  const { limit } = await prometheus.fires("SwitchbackLimitReached");
  assert.equal(limit, "proxy.maxConnections");
  await prometheus.fires("SwitchbackConnectionsRefused");
  stopClients();
  await prometheus.resolves("SwitchbackLimitReached");
  await prometheus.resolves("SwitchbackConnectionsRefused");
});

test("SwitchbackProxyMissing", () => firesWithout("SwitchbackProxyMissing", "proxy"));

test("SwitchbackWebhookNotAnswering, and the API server counts the pods that start without the webhook", () => {
  const counted = `sum(increase(apiserver_admission_webhook_fail_open_count{name=~".+[.]switchback[.]dev"}[20s])) > 0`;
  return firesWithout("SwitchbackWebhookNotAnswering", "webhook", () =>
    cluster.until("the API server's count", 120, async () => {
      await optIn(cluster);
      return (await prometheus.query(counted)).length > 0 || undefined;
    }),
  );
});

test("SwitchbackLeaderMissing", () => firesWithout("SwitchbackLeaderMissing", "controller"));

test("SwitchbackMapNotPublished, while an admission policy refuses the controller's writes", async () => {
  await cluster.apply(...DENY_MAP);
  const refused = "sum(switchback_controller_publish_failures_total) > 0";
  await cluster.until("a publication that fails", 60, async () => {
    await cluster.apply(ingress("alerts-one", `one-${Date.now()}.example.com`, "nginx"));
    return (await prometheus.query(refused)).length > 0 || undefined;
  });
  await prometheus.fires("SwitchbackMapNotPublished");
  await cluster.delete(...DENY_MAP);
  await prometheus.resolves("SwitchbackMapNotPublished");
});

test("SwitchbackAgentsSilent, until the agent is back", async () => {
  const select = (nodeSelector: object | null) =>
    cluster.kubectl(
      ...["-n", AGENTS, "patch", "daemonset/switchback-agent", "--type=merge", "-p"],
      JSON.stringify({ spec: { template: { spec: { nodeSelector } } } }),
    );
  await select({ nowhere: "true" });
  await prometheus.fires("SwitchbackAgentsSilent");
  await select({ nowhere: null });
  await cluster.rolledOut(AGENTS, "daemonset/switchback-agent");
  await scrapeAll();
  await prometheus.resolves("SwitchbackAgentsSilent");
});

test("SwitchbackRemovalHeld, until it is confirmed; then SwitchbackHalfOfNamesGone, until they are back", async () => {
  const { names } = await leaderStatus(cluster);
  const hosts = Array.from({ length: names.length + 20 }, (_, index) => `alert-${index}.example.com`);
  await cluster.apply(ingressOf(hosts));
  const loaded = `min(switchback_webhook_map_names) >= ${hosts.length}`;
  await cluster.until("the names", 60, async () => (await prometheus.query(loaded)).length > 0 || undefined);
  await cluster.apply(ingressOf(hosts.slice(0, 1)));
  await prometheus.fires("SwitchbackRemovalHeld");
  const { code, stderr } = await cluster.switchback("confirm", "--yes", "--namespace", SYSTEM);
  assert.equal(code, 0, stderr);
  await prometheus.resolves("SwitchbackRemovalHeld");
  await prometheus.fires("SwitchbackHalfOfNamesGone");
  await cluster.apply(ingressOf(hosts));
  await prometheus.resolves("SwitchbackHalfOfNamesGone");
});

test("SwitchbackWorkloadsStuck in a namespace that is new to the chart; helm upgrade resolves it", async () => {
  await openNamespace(LATE);
  await cluster.apply(ingress("alerts-one", "late-one.example.com", "nginx"));
  await cluster.until("the alert", 120, async () => {
    const firing = await prometheus.firing();
    return firing.some(({ code }) => code === "restart-rights-missing") || undefined;
  });
  await installSwitchback(cluster, values({}));
  await cluster.kubectl("-n", SYSTEM, "delete", "secret", OBJECTS.serving);
  await scrapeAll();
  await prometheus.resolves("SwitchbackWorkloadsStuck");
  await prometheus.resolves("SwitchbackCertificateExpiring");
});

/** Rejects all writes of the map. */
const DENY_MAP: readonly KubeObject[] = [
  {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicy",
    metadata: { name: "no-map" },
    spec: {
      matchConstraints: {
        resourceRules: [
          { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE", "UPDATE"], resources: ["configmaps"] },
        ],
      },
      matchConditions: [{ name: "map", expression: `object.metadata.name.startsWith('${OBJECTS.map}')` }],
      validations: [{ expression: "false", message: "a test refuses it" }],
    },
  },
  {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: "ValidatingAdmissionPolicyBinding",
    metadata: { name: "no-map" },
    spec: { policyName: "no-map", validationActions: ["Deny"] },
  },
];
