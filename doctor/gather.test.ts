import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { RELAYED } from "#test/fakes/doctor-facts.ts";
import { addConfig } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { OBJECTS, targetsObject } from "#test/published.ts";
import { known, notKnown } from "./fact.ts";
import { gather } from "./gather.ts";

const CONFIGMAPS = "/api/v1/namespaces/ours/configmaps";
const PODS = "/api/v1/namespaces/shop/pods";
const NOW = Date.UTC(2026, 0, 1);
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
  assert.deepEqual(facts.install.config, known(parseConfig({})));
  assert.deepEqual(facts.admission.configuration, known(undefined));
  assert.deepEqual([facts.namespace, facts.probeNamespace], ["ours", "probes"]);
  assert.deepEqual([facts.updaters, facts.probe], [undefined, undefined]);
  assert.deepEqual(asked("/leases"), []);
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

describe("the updaters of running pods", () => {
  const NONE = known({ all: [], of: () => undefined });
  const read = async () => {
    const asked: string[] = [];
    const readUpdaters = async ({ namespace }: { readonly namespace: string }) => {
      asked.push(namespace);
      return NONE;
    };
    const added = { sections: [], checks: [{ prepare: async () => () => [], readUpdaters }] };
    const options = { client: server.client, namespace: "ours", probeNamespace: "probes", now: () => NOW };
    const { updaters, pods } = await gather({ ...options, added });
    return { asked, updaters, pods };
  };

  test("are read once if pods are live", async () => {
    addShop();
    for (const name of ["restarted", "live", "other"]) server.add(PODS, name, name === "restarted" ? {} : LIVE);
    const { asked, updaters } = await read();
    assert.deepEqual([asked, updaters], [["ours"], NONE]);
  });

  test("are not read if no pod is live", async () => {
    addShop();
    server.add(PODS, "restarted");
    const { asked, updaters } = await read();
    assert.deepEqual([asked, updaters], [[], undefined]);
  });

  test("are not read if pods cannot be read", async () => {
    addShop();
    server.onCall = ({ path }) => (path === "/api/v1/pods" ? refusal(403, "Forbidden") : undefined);
    const { asked, updaters, pods } = await read();
    assert.deepEqual(
      [asked, updaters, pods],
      [[], undefined, notKnown("right-missing", "missing permission: list pods in all namespaces")],
    );
  });

  test("are an empty list if no extra reads them", async () => {
    addShop();
    server.add(PODS, "live", LIVE);
    const { updaters } = await run();
    assert.deepEqual(updaters?.known && [updaters.value.all, updaters.value.of("node-1")], [[], undefined]);
  });
});
