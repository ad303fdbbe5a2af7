import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, type TestContext, test } from "node:test";
import { CERT_MANAGER } from "#test/cluster/addons/cert-manager.ts";
import { setText } from "#test/cluster/addons/internet.ts";
import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "#test/cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "#test/cluster/cluster.ts";
import { IMAGES } from "#test/cluster/images.ts";
import { run } from "#test/cluster/node/run.ts";
import { withCluster } from "#test/cluster/whole.ts";
import { OPTED_IN, optIn } from "#test/e2e/opted-in.ts";
import { IMAGE_NAME, programCommand } from "#test/e2e/programs/run.ts";
import { certificateIsReady, ingress, openShop, orderCertificate, SHOP } from "#test/e2e/shop.ts";
import { applyChart, installSwitchback, restartCertManager, restoreCertManager, SYSTEM } from "#test/e2e/switchback.ts";

// Running pods with pod DNS, cert-manager among them: they get names that appear while they run. Shows what each C
// library and Go notice of each fault.

export const needs = ["ipv4"];

const NAME = "exact.faults.example.com";
const SERVICE = "kubernetes.default.svc.cluster.local";
const WILDCARD = "*.running.example.com";
const BELOW = "one.running.example.com";
const ISSUED = "issued-by-dns.example.com";
const [FIRST, SECOND] = ["switchback-dns-a", "switchback-dns-b"] as const;
const BY_DNS = { "switchback.dev/inject": "enabled", "switchback.dev/via": "dns" };
/** Parts of the command lines of the two processes in a resolver's pod. */
const COREDNS = "/run/switchback-dns/Corefile";
const SIDECAR = "/etc/switchback/config.yaml";
const PORT = 1053;
/** Duration of look-ups during a fault: longer than the kubelet takes to notice one. */
const SECONDS = 12;
const PERIOD_MS = 15;
/** Types that DNS-01 and issuers look up. */
const TYPES = ["SOA", "NS", "TXT", "CAA"];

const program = (...args: string[]) => programCommand(...args);
const CLIENTS = [
  { name: "glibc", image: IMAGE_NAME, command: program },
  { name: "musl", image: IMAGES.muslClient, command: (...args: string[]) => ["/client", ...args] },
  { name: "go", image: IMAGES.goClient, command: (...args: string[]) => ["/client", ...args] },
];

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  await installSwitchback(cluster, podDns());
  await cluster.rolledOut(SYSTEM, `deployment/${FIRST}`, `deployment/${SECOND}`);
  await cluster.apply(ingress("faults", NAME, "nginx"));
  for (const client of CLIENTS) await started(client);
  await allResolve(NAME, SERVICE);
});
after(async () => {
  await cluster.delete(...CLIENTS.map(podOf));
  for (const name of ["faults", "running", "issued"]) await cluster.delete(ingress(name, NAME, "nginx"));
  await cluster.kubectl("label", "namespace", CERT_MANAGER, "switchback.dev/via-");
  await restoreCertManager(cluster);
  await installSwitchback(cluster, { podDns: { remove: true } });
});

test("running pods of the level restricted reach a new wildcard through the relay, without a restart", async (t) => {
  const created = performance.now();
  await cluster.apply(ingress("running", WILDCARD, "nginx"));
  for (const client of CLIENTS) {
    const answer = await cluster.until(`${client.name} is answered`, 30, async () => {
      const url = client.name === "musl" ? BELOW : `http://${BELOW}/`;
      const { stdout } = await cluster.exec(podName(client), ...client.command("get", url));
      return stdout.includes("the shop") ? stdout : undefined;
    });
    t.diagnostic(`${client.name}: ${Math.round(performance.now() - created)} ms after the Ingress`);
    const { status } = await cluster.get<Pod>("-n", SHOP, "pod", `dns-${client.name}`);
    // The answer shows that the relay passes on the client's address.
    assert.match(answer, new RegExp(`host=${BELOW} for=${status.podIP}`), client.name);
    assert.equal(status.containerStatuses[0]?.restartCount, 0);
  }
});

test("cert-manager works with pod DNS, and DNS-01 gets the same answers as before", async () => {
  await cluster.kubectl("label", "namespace", CERT_MANAGER, "switchback.dev/inject=enabled", "switchback.dev/via=dns");
  // A pod that is created while a check of the resolvers fails gets hostAliases.
  await cluster.until("cert-manager has the resolvers", 180, async () => {
    await restartCertManager(cluster);
    const running = ["-l", "app.kubernetes.io/component=controller", "--field-selector=status.phase=Running"];
    const pods = await cluster.get<{ items: Pod[] }>("-n", CERT_MANAGER, "pods", ...running);
    const [{ spec } = assert.fail("no pod")] = pods.items.filter(
      ({ metadata }) => metadata.deletionTimestamp === undefined,
    );
    assert.deepEqual([spec.dnsPolicy, spec.hostAliases], ["None", undefined]);
    return true;
  });
  await cluster.apply(ingress("issued", ISSUED, "nginx", "issued-tls"));
  await orderCertificate(cluster, ISSUED, "issued-tls");
  await certificateIsReady(cluster, "issued-tls");

  await optIn(cluster);
  await setText(cluster, `_acme-challenge.${ISSUED}`, "token");
  for (const name of [ISSUED, `_acme-challenge.${ISSUED}`, BELOW]) {
    const ask = program("records", TYPES.join(), name);
    // An answer that is late differs, so try again.
    await cluster.until(`the same answers for ${name}`, 60, async () => {
      const ours = (await cluster.exec(`${SHOP}/dns-glibc`, ...ask)).stdout;
      assert.equal(ours, (await cluster.exec(`${OPTED_IN}/deployment/client`, ...ask)).stdout);
      assert.equal(ours.includes("token"), name.startsWith("_acme"), ours);
      return true;
    });
  }
});

for (const [what, fault] of [
  ["one CoreDNS is killed", async () => kill("SIGKILL", (await podsOf(FIRST)).slice(0, 1))],
  ["every CoreDNS of one Service is frozen", async () => kill("SIGSTOP", await podsOf(FIRST))],
  // If there are enough nodes, the chart keeps the two Deployments on different ones.
  ["a node is lost, unnoticed: packets to one pod of one Service", () => lose(FIRST, 1)],
  ["packets to one Service are lost, unnoticed", () => lose(FIRST, 2)],
  ["one Service has no endpoints", () => scaledDown(FIRST)],
] as const) {
  test(`no look-up fails while ${what}`, async (t) => {
    let end = async () => {};
    try {
      const looked = allLookUp();
      end = await fault();
      report(t, await looked);
    } finally {
      await end();
      await bothReady();
    }
  });
}

test("no look-up fails in a rollout, which updates one Deployment after the other", async (t) => {
  await applyChart(cluster, podDns({ searches: ["rolled.example.com"] }));
  const rolled = { done: false };
  const looked = (async () => {
    const counts = [await allLookUp()];
    while (!rolled.done) counts.push(await allLookUp());
    return counts;
  })();
  const since = performance.now();
  await bothReady().finally(() => {
    rolled.done = true;
  });
  t.diagnostic(`both are rolled after ${Math.round((performance.now() - since) / 1000)} s`);
  report(t, ...(await looked));
  const [first, second] = await Promise.all([FIRST, SECOND].map(podsOf));
  const ready = Math.min(...(first ?? []).map(readySince));
  assert.ok(
    (second ?? []).every((pod) => answersSince(pod) >= ready),
    "the second Deployment waits for the first",
  );
});

interface Pod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly spec: { readonly dnsPolicy: string; readonly hostAliases?: unknown };
  readonly status: {
    readonly podIP: string;
    readonly conditions: readonly { readonly type: string; readonly lastTransitionTime: string }[];
    readonly containerStatuses: readonly {
      readonly restartCount: number;
      readonly state: { readonly running?: { readonly startedAt: string } };
    }[];
  };
}

type Client = (typeof CLIENTS)[number];

interface Counts {
  readonly lookups: number;
  readonly failed: number;
  readonly slowestMs: number;
}

function podDns(config: object = {}) {
  return { podDns: { enabled: true, image: IMAGES.coredns }, config: { podDns: config } };
}

function podOf({ name, image, command }: Client): KubeObject {
  const pull = { imagePullPolicy: "IfNotPresent", securityContext: RESTRICTED_CONTAINER };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: SHOP, name: `dns-${name}`, labels: BY_DNS },
    spec: {
      securityContext: RESTRICTED_POD,
      terminationGracePeriodSeconds: 0,
      containers: [{ name: "main", image, command: command("sleep"), ...pull }],
    },
  };
}

function podName({ name }: Client): string {
  return `${SHOP}/dns-${name}`;
}

/**
 * Recreates the client's pod until it has the resolvers. A pod that is created while a check of them fails gets
 * hostAliases.
 */
async function started(client: Client): Promise<void> {
  await cluster.until(`${client.name} has the resolvers`, 60, async () => {
    await cluster.delete(podOf(client));
    await cluster.apply(podOf(client));
    const { spec } = await cluster.get<Pod>("-n", SHOP, "pod", `dns-${client.name}`);
    return spec.dnsPolicy === "None" || undefined;
  });
  await cluster.kubectl("-n", SHOP, "wait", "--for=condition=Ready", `pod/dns-${client.name}`, "--timeout=60s");
}

async function allResolve(...names: string[]): Promise<void> {
  for (const client of CLIENTS) {
    await cluster.until(`${client.name} resolves ${names}`, 60, async () => {
      const args = client.name === "musl" ? names : ["resolve", ...names];
      return (await cluster.exec(podName(client), ...client.command(...args))).code === 0 || undefined;
    });
  }
}

/** Looks up a mapped name and a Service, 200 times a second by all clients together. */
async function allLookUp(): Promise<Map<string, Counts>> {
  const args = ["repeat", String(SECONDS), String(PERIOD_MS), NAME, SERVICE];
  const counts = CLIENTS.map(async (client) => {
    const { stdout, stderr } = await cluster.exec(podName(client), ...client.command(...args));
    assert.notEqual(stdout, "", stderr);
    return [client.name, JSON.parse(stdout) as Counts] as const;
  });
  return new Map(await Promise.all(counts));
}

function report(t: TestContext, ...rounds: ReadonlyMap<string, Counts>[]): void {
  for (const { name } of CLIENTS) {
    const all = rounds.map((round) => round.get(name) ?? assert.fail(name));
    const sum = (of: "lookups" | "failed") => all.reduce((total, counts) => total + counts[of], 0);
    const slowest = Math.max(...all.map(({ slowestMs }) => slowestMs));
    t.diagnostic(`${name}: ${sum("lookups")} look-ups, ${sum("failed")} failed, the slowest took ${slowest} ms`);
    assert.equal(sum("failed"), 0, name);
    assert.ok(sum("lookups") > 0);
  }
}

async function podsOf(resolver: string): Promise<Pod[]> {
  const selector = `switchback.dev/resolver=${resolver.at(-1)}`;
  const { items } = await cluster.get<{ items: Pod[] }>("-n", SYSTEM, "pods", "-l", selector);
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

function processOf({ metadata: { name } }: Pod, command: string): number {
  return processesOf(name, command)[0] ?? assert.fail(`${name} has no process with ${command}`);
}

async function kill(signal: NodeJS.Signals, pods: readonly Pod[]): Promise<() => Promise<void>> {
  const pids = pods.map((pod) => processOf(pod, COREDNS));
  assert.notEqual(pids.length, 0);
  for (const pid of pids) process.kill(pid, signal);
  return async () => {
    if (signal !== "SIGSTOP") return;
    // The kubelet may have ended the process meanwhile.
    for (const pid of pods.flatMap((pod) => processesOf(pod.metadata.name, COREDNS))) process.kill(pid, "SIGCONT");
  };
}

async function lose(name: string, count: number): Promise<() => Promise<void>> {
  const pods = (await podsOf(name)).slice(0, count);
  assert.equal(pods.length, count);
  const ends: (() => Promise<void>)[] = [];
  // Use the sidecar's process: it is still needed to end the loss, and the kubelet may end a CoreDNS that was frozen
  // before.
  for (const pod of pods) ends.push(await dropPackets(processOf(pod, SIDECAR), PORT));
  return async () => {
    for (const end of ends) await end();
  };
}

async function scaledDown(name: string): Promise<() => Promise<void>> {
  await cluster.kubectl("-n", SYSTEM, "scale", `deployment/${name}`, "--replicas=0");
  return async () => {
    await cluster.kubectl("-n", SYSTEM, "scale", `deployment/${name}`, "--replicas=2");
  };
}

async function bothReady(): Promise<void> {
  await cluster.rolledOut(SYSTEM, `deployment/${FIRST}`, `deployment/${SECOND}`);
}

function readySince({ status }: Pod): number {
  return Date.parse(status.conditions.find(({ type }) => type === "Ready")?.lastTransitionTime ?? "");
}

function answersSince({ status }: Pod): number {
  return Date.parse(status.containerStatuses[0]?.state.running?.startedAt ?? "");
}

/** A file of a process; empty if the process has ended. */
function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/**
 * The processes of a pod whose command line contains `command`. The environment of every container has the name of
 * its pod.
 */
function processesOf(pod: string, command: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => read(`/proc/${pid}/cmdline`).includes(command))
    .filter((pid) => read(`/proc/${pid}/environ`).split("\0").includes(`HOSTNAME=${pod}`))
    .map(Number);
}

/**
 * Drops packets to a port of the pod that has this process. The kubelet's probes use other ports, so they notice
 * nothing. Returns a function that ends the fault.
 */
async function dropPackets(pid: number, port: number): Promise<() => Promise<void>> {
  const nft = (...rule: string[]) => run("nsenter", `--target=${pid}`, "--net", "nft", ...rule);
  await nft("add", "table", "inet", "lost");
  await nft("add", "chain", "inet", "lost", "in", "{ type filter hook input priority 0 ; }");
  for (const protocol of ["udp", "tcp"])
    await nft("add", "rule", "inet", "lost", "in", protocol, "dport", `${port}`, "drop");
  return async () => {
    await nft("delete", "table", "inet", "lost");
  };
}
