import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { whyNoDebian } from "../cluster/debian.ts";
import { freePorts } from "../cluster/ports.ts";
import { kubeletFiles } from "../fakes/kubelet-files.ts";
import { extraModules } from "../files.ts";
import { OBJECTS } from "../published.ts";
import { type Following, startFollowing } from "./following.ts";
import { Kubelet } from "./kubelet.ts";
import { ingress, namespaceYaml, podObject, workload } from "./objects.ts";
import { DASHBOARD, hastyAlerts, Prometheus, promtool, type ScrapeTarget } from "./prometheus/prometheus.ts";
import { NAMESPACE, type System, until } from "./system.ts";
import type { Replica } from "./system-options.ts";

// The chart's alerts in a real Prometheus, with every component on a real API server. Each alert fires when the test
// causes its fault, and resolves when the test repairs it. What lasts minutes in the alerts lasts seconds here.

const LIVELY = "lively";
const LATE = "late";
const CONNECTIONS = 10;
const NAMES = Array.from({ length: 12 }, (_, index) => `shop-${index}.example.com`);

/** Module `integration/metrics.ts` of an extra: the metrics of a component that does not run here. */
interface ExtraMetrics {
  readonly COMPONENT: string;
  metricsText(): string;
}

const reason = whyNoDebian();
const cleanups: Array<() => void> = [];
const files = kubeletFiles({ after: (done) => cleanups.push(done as () => void) });
const sockets = new Set<Socket>();
let system: System;
let kubelet: Kubelet;
let follow: Following;
let prometheus: Prometheus;
let dnsFiles: string;
let listenPort: number;
let upstreamPort: number;
let upstream: Server | undefined;

const values = (leafDays?: number) => ({
  agent: { enabled: true },
  podDns: { enabled: true, image: "registry.example.com/coredns:1.14.5" },
  config: {
    targets: [
      {
        name: "edge",
        upstream: { host: "127.0.0.1" },
        ports: [{ port: 443, upstreamPort, listenPort, protocol: "v1" }],
      },
    ],
    discovery: { enabled: false },
    map: { vanishSeconds: 0, guardHoldSeconds: 60 },
    restart: { namespaces: [LIVELY, LATE], minIntervalSeconds: 1 },
    pods: { agentSilenceSeconds: 40 },
    controller: { leaseSeconds: 4 },
    proxy: { maxConnections: CONNECTIONS, maxConnectionsPerSource: CONNECTIONS, engine: "portable" },
    ...(leafDays !== undefined && { certs: { leafDays } }),
  },
});

before(async () => {
  if (reason !== undefined) return;
  [listenPort = 0, upstreamPort = 0] = await freePorts(2);
  ({ system, kubelet, follow } = await startFollowing(LIVELY, { values: values(3) }));
  kubelet.files = files;
  await system.kubectl("annotate", "namespace", LIVELY, "switchback.dev/on-change=live");
  dnsFiles = await mkdtemp(join(tmpdir(), "switchback-dns-files-"));
  const url = new URL(system.cluster.url);
  prometheus = await Prometheus.start({
    rules: await hastyAlerts(),
    jobs: [
      {
        job_name: "apiserver",
        // The API server's metrics are megabytes, so a busy machine needs a while to scrape them.
        scrape_interval: "2s",
        scrape_timeout: "2s",
        scheme: "https",
        tls_config: { ca_file: system.cluster.caFile },
        authorization: { credentials: system.cluster.adminToken },
        static_configs: [{ targets: [url.host] }],
      },
    ],
  });
  await system.startProxy();
  await system.startAgent(files.root);
  await system.startDns(dnsFiles);
  await system.apply(workload("Deployment", "web", LIVELY));
  await follow.rolledOut("Deployment", "web");
  await system.apply(ingress("shop", NAMES));
  await system.ready(NAMES);
  await scrapeAll();
});
after(async () => {
  for (const socket of sockets) socket.destroy();
  upstream?.close();
  await prometheus?.stop();
  await kubelet?.stop();
  await system?.stop();
  if (dnsFiles !== undefined) await rm(dnsFiles, { recursive: true, force: true });
  for (const done of cleanups) done();
});

const components = (): ReadonlyMap<string, readonly Replica[]> =>
  new Map([
    ["controller", system.controllers],
    ["webhook", system.webhooks],
    ["proxy", system.proxies],
    ["agent", system.agents],
    ["dns", system.resolvers],
  ]);

/** Makes Prometheus scrape the replicas that run now. */
async function scrapeAll(): Promise<void> {
  const targets = [...components()].flatMap(([component, replicas]) =>
    replicas.map(({ process, address, healthPort }): ScrapeTarget => {
      return { job: `switchback-${component}`, instance: process.name, address: `${address}:${healthPort}` };
    }),
  );
  await prometheus.scrape(targets);
}

/** Ends the only replica of a component. */
async function end(component: string): Promise<void> {
  const [replica] = components().get(component) ?? [];
  assert.ok(replica);
  await system.end(replica);
  await scrapeAll();
}

/** Connects a client to the relay. Resolves when its connection is relayed or reset. */
async function client(): Promise<"relayed" | "reset"> {
  const [proxy] = system.proxies;
  const socket = connect(listenPort, proxy?.address);
  sockets.add(socket);
  socket.write("hello");
  return await new Promise((resolve) => {
    socket.once("data", () => resolve("relayed"));
    socket.once("error", () => resolve("reset"));
    socket.once("close", () => {
      sockets.delete(socket);
      resolve("reset");
    });
  });
}

/** Connects clients, one after the other, until `done` settles. */
async function whileClientsCome(done: Promise<unknown>): Promise<void> {
  let isOver = false;
  const over = done.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    await client();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await over;
}

function closeAll(): void {
  for (const socket of sockets) socket.destroy();
}

describe("alerts", { skip: reason ?? false, concurrency: false }, () => {
  it("SwitchbackCertificateExpiring, until a certificate with a longer lifetime is served", async () => {
    await prometheus.fires("SwitchbackCertificateExpiring");
    await system.install(values());
    await end("controller");
    await system.start("controller");
    await system.kubectl("-n", NAMESPACE, "delete", "secret", OBJECTS.serving);
    await scrapeAll();
    await prometheus.resolves("SwitchbackCertificateExpiring");
  });

  it("are otherwise silent", async () => {
    await until("no alert to fire", async () => (await prometheus.firing()).length === 0);
  });

  it("SwitchbackTargetUnreachable, while clients come and nothing listens at the upstream's port", async () => {
    const labels = prometheus.fires("SwitchbackTargetUnreachable");
    await whileClientsCome(labels);
    const { target, port } = await labels;
    assert.deepEqual([target, port], ["edge", "443"]);
    upstream = createServer((socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.once("data", () => socket.write("hello"));
    });
    await new Promise<void>((resolve) => upstream?.listen(upstreamPort, "127.0.0.1", resolve));
    assert.equal(await client(), "relayed");
    await prometheus.resolves("SwitchbackTargetUnreachable");
  });

  it("SwitchbackLimitReached and SwitchbackConnectionsRefused, while others hold all connections", async () => {
    closeAll();
    for (let count = 0; count < CONNECTIONS; count++) assert.equal(await client(), "relayed");
    const limit = prometheus.fires("SwitchbackLimitReached");
    await whileClientsCome(Promise.all([limit, prometheus.fires("SwitchbackConnectionsRefused")]));
    assert.equal((await limit).limit, "proxy.maxConnections");
    closeAll();
    await prometheus.resolves("SwitchbackLimitReached");
    await prometheus.resolves("SwitchbackConnectionsRefused");
  });

  it("SwitchbackProxyMissing, until a proxy runs", async () => {
    await end("proxy");
    await prometheus.fires("SwitchbackProxyMissing");
    await system.startProxy();
    await scrapeAll();
    await prometheus.resolves("SwitchbackProxyMissing");
  });

  it("SwitchbackWebhookNotAnswering, while the API server counts failed calls, and while no webhook runs", async () => {
    const [webhook] = system.webhooks;
    assert.ok(webhook);
    // The webhook runs, but the API server cannot reach it.
    system.cluster.routeService(`${NAMESPACE}/switchback-webhook`, 443, []);
    const firing = prometheus.fires("SwitchbackWebhookNotAnswering");
    let isOver = false;
    void firing.finally(() => {
      isOver = true;
    });
    for (let count = 0; !isOver; count++) {
      await system.apply(
        JSON.stringify(podObject(LIVELY, `unseen-${count}`, { labels: { "switchback.dev/inject": "enabled" } })),
      );
    }
    await firing;
    system.routeWebhooks();
    await prometheus.resolves("SwitchbackWebhookNotAnswering");
    await end("webhook");
    await prometheus.fires("SwitchbackWebhookNotAnswering");
    await system.start("webhook");
    await scrapeAll();
    await prometheus.resolves("SwitchbackWebhookNotAnswering");
  });

  it("SwitchbackLeaderMissing, until a controller leads", async () => {
    await end("controller");
    await prometheus.fires("SwitchbackLeaderMissing");
    await system.start("controller");
    await scrapeAll();
    await prometheus.resolves("SwitchbackLeaderMissing");
  });

  it("SwitchbackMapNotPublished, while an admission policy refuses the controller's writes", async () => {
    await system.apply(DENY_MAP);
    await until("the policy to be in force", async () => {
      await system.apply(ingress("late", [`late-${Date.now()}.example.com`]));
      return (await (await system.leader()).page("/metrics")).text.match(/publish_failures_total [1-9]/) !== null;
    });
    await prometheus.fires("SwitchbackMapNotPublished");
    await system.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "no-map");
    await prometheus.resolves("SwitchbackMapNotPublished");
  });

  it("SwitchbackWorkloadsStuck, in a listed namespace that did not exist at the install", async () => {
    await system.apply(namespaceYaml(LATE, "enabled"));
    const late = new Kubelet(system, LATE);
    try {
      await system.apply(workload("Deployment", "web", LATE));
      await system.kubectl("-n", LATE, "rollout", "status", "deployment/web", "--timeout=60s");
      await system.apply(ingress("more", ["more.example.com"]));
      const { code } = await prometheus.fires("SwitchbackWorkloadsStuck");
      assert.equal(code, "restart-rights-missing");
      await system.install(values());
      await prometheus.resolves("SwitchbackWorkloadsStuck");
    } finally {
      await late.stop();
    }
  });

  it("SwitchbackNamesUnmapped, while objects claim as many names as before and none may be mapped", async () => {
    await until("Prometheus to have seen them mapped for a while", async () => {
      const query = `switchback_controller_names{outcome="mapped"} offset 10s >= ${NAMES.length}`;
      return (await prometheus.query(query)).length > 0;
    });
    const refused = NAMES.map((name) => name.replace("example.com", "letsencrypt.org"));
    await system.apply(ingress("shop", refused));
    await prometheus.fires("SwitchbackNamesUnmapped");
    await system.apply(ingress("shop", NAMES));
    await prometheus.resolves("SwitchbackNamesUnmapped");
    await prometheus.resolves("SwitchbackRemovalHeld");
  });

  it("SwitchbackRemovalHeld, until its time is over; then SwitchbackHalfOfNamesGone, until they are back", async () => {
    await system.apply(ingress("shop", NAMES.slice(0, 1)));
    await prometheus.fires("SwitchbackRemovalHeld");
    await system.showController();
    await prometheus.resolves("SwitchbackRemovalHeld");
    await prometheus.fires("SwitchbackHalfOfNamesGone");
    await system.apply(ingress("shop", NAMES));
    await prometheus.resolves("SwitchbackHalfOfNamesGone");
  });
});

describe("metrics", { skip: reason ?? false }, () => {
  it("pass promtool in every component, and are exactly those that docs/metrics.md lists", async () => {
    const rows = readFileSync(join(import.meta.dirname, "..", "..", "docs", "metrics.md"), "utf8").matchAll(
      /^\| `((?:switchback|process)_[a-z_]+)` \|/gm,
    );
    const served = new Set<string>();
    const extras = await extraModules<ExtraMetrics>("integration/metrics.ts");
    const texts = new Map(extras.map(({ COMPONENT, metricsText }) => [COMPONENT, metricsText()]));
    for (const [component, [replica]] of components()) {
      texts.set(component, ((await replica?.page("/metrics")) ?? assert.fail(component)).text);
    }
    for (const [component, text] of texts) {
      const { code, output } = await promtool(["check", "metrics"], { input: text });
      assert.deepEqual([code, output], [0, ""], component);
      for (const [, name = ""] of text.matchAll(/^# TYPE (\S+)/gm)) served.add(name);
    }
    assert.deepEqual([...served].sort(), Array.from(rows, ([, name]) => name).sort());
  });

  it("exist for every query of the Grafana dashboard", async () => {
    interface Panel {
      readonly title: string;
      readonly targets?: ReadonlyArray<{ readonly expr: string }>;
    }
    const { panels } = JSON.parse(readFileSync(DASHBOARD, "utf8")) as { panels: Panel[] };
    // A proxy reports its upstream only after it has connected, and a rate needs two scrapes.
    await until("a rate of every component", async () => {
      assert.equal(await client(), "relayed");
      closeAll();
      const jobs = await prometheus.query("count by (job) (rate(process_cpu_seconds_total[10s]))");
      const upstreams = await prometheus.query("switchback_proxy_upstream_ok");
      return jobs.length >= components().size && upstreams.length > 0;
    });
    const queries = panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));
    assert.ok(queries.length > 30, String(queries.length));
    for (const { title, expr } of queries) {
      const series = await prometheus.query(expr.replaceAll("$__rate_interval", "10s"));
      assert.ok(series.length > 0, `${title}: ${expr}`);
    }
  });
});

/** An admission policy under which nobody can write the map. */
const DENY_MAP = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: { name: no-map }
spec:
  matchConstraints:
    resourceRules:
      - { apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps] }
  matchConditions:
    - { name: map, expression: "object.metadata.name.startsWith('${OBJECTS.map}')" }
  validations:
    - { expression: "false", message: a test refuses it }
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: { name: no-map }
spec: { policyName: no-map, validationActions: [Deny] }
`;
