import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { RELAYED } from "#test/fakes/doctor-facts.ts";
import { addConfig } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { OBJECTS, targetsObject } from "#test/published.ts";
import { known } from "./fact.ts";
import { gather } from "./gather.ts";

const CONFIGMAPS = "/api/v1/namespaces/ours/configmaps";
const PODS = "/api/v1/namespaces/shop/pods";
const NOW = Date.UTC(2026, 0, 1);

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
  server.add(PODS, "pod");
  const facts = await run();
  const names = (fact: typeof facts.services | typeof facts.pods) => fact.known && fact.value.map(({ name }) => name);
  assert.deepEqual([facts.services, facts.pods].map(names), [["web"], ["pod"]]);
  assert.deepEqual(facts.namespaces.known && [...facts.namespaces.value.keys()], ["shop"]);
  assert.deepEqual(facts.install.config, known(parseConfig({})));
  assert.deepEqual(facts.admission.configuration, known(undefined));
  assert.ok(facts.names.known);
  assert.deepEqual([facts.namespace, facts.probeNamespace, facts.probe], ["ours", "probes", undefined]);
});

test("if the API server does not return its version, the run fails and reads nothing else", async () => {
  server.onCall = () => refusal(503, "ServiceUnavailable");
  await assert.rejects(run(), { code: "kube-status", status: 503 });
  assert.deepEqual(asked(""), ["/version"]);
});

test("counts the endpoints of targets that are Services, and of no other targets", async () => {
  const host = { ...RELAYED, name: "host", upstream: "lb.example.com" };
  const other = { ...host, ports: host.ports.map((port) => ({ ...port, listenPort: port.listenPort + 1 })) };
  server.add(CONFIGMAPS, OBJECTS.targets, targetsObject([RELAYED, other]));
  const { endpoints } = await run();
  assert.deepEqual(endpoints, known([{ namespace: "ingress-nginx", name: "ingress-nginx-controller", ready: 0 }]));
});
