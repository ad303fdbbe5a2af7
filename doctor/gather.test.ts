import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { renderTargets } from "#lib/documents/targets-format.ts";
import { RELAYED } from "#test/fakes/doctor-facts.ts";
import { addConfig } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { gather } from "./gather.ts";
import { known, notKnown } from "./known.ts";

const CONFIGMAPS = "/api/v1/namespaces/ours/configmaps";
const PODS = "/api/v1/namespaces/shop/pods";
const NOW = Date.UTC(2026, 0, 1);
const leases = (namespace: string) => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const LIVE = { metadata: { annotations: { "switchback.dev/on-change": "live" } } };

let server: MemoryServer;
beforeEach(() => {
  server = new MemoryServer();
});

const run = () => gather({ client: server.client, namespace: "ours", probeNamespace: "probes", now: () => NOW });
const asked = (part: string) => server.calls.map(({ path }) => path).filter((path) => path.includes(part));

function addShop(config = ""): void {
  server.add("/api/v1/namespaces", "shop", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
  addConfig(server, { "config.yaml": config });
}

test("reads every fact except the probe's", async () => {
  addShop();
  server.add("/api/v1/namespaces/edge/services", "web");
  server.add("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", "ingress");
  server.add("/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways", "gateway");
  server.add("/api/v1/nodes", "node-1", { spec: { providerID: "hcloud://1" } });
  server.add(PODS, "pod");
  const facts = await run();
  const names = (fact: typeof facts.services | typeof facts.ingresses | typeof facts.pods) =>
    fact.known && fact.value.map(({ name }) => name);
  assert.deepEqual([facts.services, facts.ingresses, facts.gateways, facts.pods].map(names), [
    ["web"],
    ["ingress"],
    ["gateway"],
    ["pod"],
  ]);
  assert.deepEqual(facts.namespaces.known && [...facts.namespaces.value.keys()], ["shop"]);
  assert.deepEqual(facts.providerIds, known(["hcloud://1"]));
  assert.deepEqual(facts.install.config, known(parseConfig({})));
  assert.deepEqual(facts.admission.configuration, known(undefined));
  assert.deepEqual([facts.namespace, facts.probeNamespace], ["ours", "probes"]);
  assert.deepEqual([facts.agents, facts.probe], [undefined, undefined]);
  assert.deepEqual(asked("/leases"), []);
});

test("an API server that does not give its version is a failure, and nothing else is read", async () => {
  server.onCall = () => refusal(503, "ServiceUnavailable");
  await assert.rejects(run(), { code: "kube-status", status: 503 });
  assert.deepEqual(asked(""), ["/version"]);
});

test("counts the endpoints of the targets that are Services, and of no others", async () => {
  const host = { ...RELAYED, name: "host", upstream: "lb.example.com" };
  const other = { ...host, ports: host.ports.map((port) => ({ ...port, listenPort: port.listenPort + 1 })) };
  server.add(CONFIGMAPS, "switchback-targets", { data: { "targets.json": renderTargets([RELAYED, other]).text } });
  const { endpoints } = await run();
  assert.deepEqual(endpoints, known([{ namespace: "ingress-nginx", name: "ingress-nginx-controller", ready: 0 }]));
});

describe("agents' Leases are read where a pod is live:", () => {
  test("in the configured namespace", async () => {
    addShop("agent: { namespace: nodes }");
    server.add(PODS, "restarted");
    server.add(PODS, "live", LIVE);
    server.add(leases("nodes"), "switchback-agent-a", {
      metadata: { labels: { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "agent" } },
      spec: { renewTime: new Date(NOW - 5).toISOString() },
    });
    const { agents } = await run();
    assert.deepEqual(
      agents,
      known([{ lease: "switchback-agent-a", mapRevision: undefined, podRevisions: undefined, silentMs: 5 }]),
    );
  });

  test("in the default namespace where the configuration cannot be read", async () => {
    addShop("unheard: 1");
    server.add(PODS, "live", LIVE);
    assert.deepEqual((await run()).agents, known([]));
    assert.deepEqual(asked("/leases"), [leases(parseConfig({}).agent.namespace)]);
  });

  test("not where pods cannot be read", async () => {
    addShop();
    server.onCall = ({ path }) => (path === "/api/v1/pods" ? refusal(403, "Forbidden") : undefined);
    const { agents, pods } = await run();
    assert.deepEqual(
      [agents, pods],
      [undefined, notKnown("right-missing", "missing permission: list pods in all namespaces")],
    );
    assert.deepEqual(asked("/leases"), []);
  });
});
