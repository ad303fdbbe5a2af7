import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { EXPERIMENTAL_GROUP, GATEWAY_GROUP } from "#controller/sources/gateway/view.ts";
import { foundName } from "#controller/targets/service-view.ts";
import {
  ACCEPTED,
  CRDS,
  condition,
  GatewayApi,
  installGatewayApi,
  installKind,
  X_LISTENER_SETS,
} from "./gateway-api.ts";
import { namespaceYaml } from "./objects.ts";
import { type System, startSystem, until } from "./system.ts";

// Gateway API in the life of a cluster: it is installed after Switchback, used, removed while everything runs, and
// installed again.

const NAMES = [...Array(12).keys()].map((index) => `gw${index}.example.com`);

let system: System;
let api: GatewayApi;
before(async () => {
  const config = {
    // Long enough to see a hold, and shorter than each wait for names that leave.
    map: { vanishSeconds: 0, guardHoldSeconds: 10 },
    policy: { maxNamesPerNamespace: 2_000 },
    targets: [{ name: "edge", upstream: { service: { namespace: "edge", name: "edge" } }, classes: ["edge"] }],
  };
  system = await startSystem({ values: { config } });
  api = new GatewayApi(system);
  await system.apply(["infra", "shop", "crowd"].map((name) => namespaceYaml(name)).join(""));
});
after(() => system?.stop());

const listener = (name: string, more: object = {}) => ({ name, port: 80, protocol: "HTTP", ...more });
const from = (value: string, selector?: object) => ({
  allowedRoutes: { namespaces: { from: value, ...(selector && { selector }) } },
});

async function published(...names: string[]): Promise<void> {
  await until(`${names.slice(0, 3).join(", ")} to be published`, async () =>
    (await system.publishedNames()).isSupersetOf(new Set(names)),
  );
}

async function unpublished(...names: string[]): Promise<void> {
  await until(`${names.slice(0, 3).join(", ")} to leave`, async () =>
    (await system.publishedNames()).isDisjointFrom(new Set(names)),
  );
}

async function refused(name: string, code: string): Promise<void> {
  await until(`${name} to be refused: ${code}`, async () => {
    const found = (await (await system.leader()).status()).names.filter((entry) => entry.name === name);
    return found.length > 0 && found.every(({ reason }) => reason?.code === code);
  });
}

async function problems(): Promise<string[]> {
  const { sources } = await (await system.leader()).status();
  return sources.flatMap((source) => source.problems.map(({ place, code }) => `${place}: ${code}`)).sort();
}

describe("a cluster without Gateway API", () => {
  it("has sources for it that are in sync and have no problem", async () => {
    const { sources, synced } = await (await system.leader()).status();
    const own = sources.filter(({ name }) => name.endsWith(GATEWAY_GROUP));
    assert.deepEqual(own.map(({ name }) => name).sort(), [...CRDS, `gatewayclasses.${GATEWAY_GROUP}`].sort());
    assert.ok(own.every((source) => source.synced && source.problems.length === 0));
    assert.ok(synced);
  });
});

describe("Gateway API, once it is installed", () => {
  before(() => installGatewayApi(system));

  it("maps the names of each kind of route, and those of listeners before a route exists", async () => {
    await api.gateway("open", [
      listener("http", { ...from("All") }),
      listener("own", { hostname: "listener.example.com" }),
      listener("tls", { port: 443, protocol: "TLS", tls: { mode: "Passthrough" }, ...from("All") }),
    ]);
    await published("listener.example.com");
    await api.route("HTTPRoute", "http", "open", ["http.example.com"]);
    await api.route("GRPCRoute", "grpc", "open", ["grpc.example.com"]);
    await api.route("TLSRoute", "tls", "open", ["tls.example.com"]);
    await published("http.example.com", "grpc.example.com", "tls.example.com");
    const { sources } = await (await system.leader()).status();
    assert.ok(!sources.some(({ name }) => name === "namespaces"), "no listener selects by labels yet");
  });

  it("maps only what is accepted, and follows acceptance", async () => {
    const accepted = [condition("Accepted", "False")];
    await api.route("HTTPRoute", "later", "open", ["later.example.com"], { accepted });
    await refused("later.example.com", "not-accepted");
    await api.route("HTTPRoute", "later", "open", ["later.example.com"]);
    await published("later.example.com");
    await api.route("HTTPRoute", "later", "open", ["later.example.com"], { accepted });
    await unpublished("later.example.com");
  });

  it("uses only the listeners that a namespace's labels allow, and follows the labels", async () => {
    await api.gateway("picky", [
      listener("same", { hostname: "same.picky.example.com", ...from("Same") }),
      listener("labelled", { hostname: "*.picky.example.com", ...from("Selector", { matchLabels: { team: "shop" } }) }),
    ]);
    await api.route("HTTPRoute", "picky", "picky", ["a.picky.example.com"]);
    await refused("a.picky.example.com", "not-allowed");
    await system.kubectl("label", "namespace", "shop", "team=shop");
    await published("a.picky.example.com");
    await system.kubectl("label", "namespace", "shop", "team-");
    await unpublished("a.picky.example.com");
  });

  it("reads the ListenerSets that a Gateway allows and its controller accepts, and their routes", async () => {
    const toSet = { parentRef: { kind: "ListenerSet", namespace: "shop" } };
    const listeners = [
      listener("own", { hostname: "own.set.example.com" }),
      listener("wide", { hostname: "*.wide.example.com" }),
    ];
    const own = [listener("http", { hostname: "gw.set.example.com" })];
    await api.gateway("sets", own);
    await api.listenerSet("set", "sets", listeners);
    await api.route("HTTPRoute", "set", "set", ["a.wide.example.com", "own.set.example.com"], toSet);
    await refused("a.wide.example.com", "not-allowed");
    const selector = { matchLabels: { team: "sets" } };
    await api.gateway("sets", own, { allowedListeners: { namespaces: { from: "Selector", selector } } });
    await system.kubectl("label", "namespace", "shop", "team=sets");
    await refused("*.wide.example.com", "not-accepted");
    await api.listenerSet("set", "sets", listeners, { conditions: ACCEPTED });
    await published("a.wide.example.com", "own.set.example.com");
    const conflict = { conditions: [condition("Accepted", "False"), condition("Conflicted", "True")] };
    const statuses = [{ name: "wide", attachedRoutes: 0, supportedKinds: [], ...conflict }];
    await api.listenerSet("set", "sets", listeners, { conditions: ACCEPTED, listeners: statuses });
    await unpublished("a.wide.example.com");
    await refused("a.wide.example.com", "no-matching-listener");
    await refused("*.wide.example.com", "not-accepted");
    await published("own.set.example.com");
    await system.kubectl("label", "namespace", "shop", "team-");
    await unpublished("own.set.example.com");
  });

  it("reads XListenerSets beside ListenerSets, and their routes", async () => {
    await installKind(system, "XListenerSet", X_LISTENER_SETS);
    await api.gateway("experimental", [listener("http")], { allowedListeners: { namespaces: { from: "All" } } });
    await system.apply(
      JSON.stringify({
        apiVersion: `${EXPERIMENTAL_GROUP}/v1alpha1`,
        kind: "XListenerSet",
        metadata: { namespace: "shop", name: "set" },
        spec: {
          parentRef: { name: "experimental", namespace: "infra" },
          listeners: [listener("wide", { hostname: "*.x.example.com" })],
        },
        status: { conditions: ACCEPTED },
      }),
    );
    const parentRef = { group: EXPERIMENTAL_GROUP, kind: "XListenerSet", namespace: "shop" };
    await api.route("HTTPRoute", "x", "set", ["a.x.example.com"], { parentRef });
    await published("a.x.example.com");
  });

  it("leads to the LoadBalancer Service that has the Gateway's address, whatever its class", async () => {
    const ip = "203.0.113.80";
    const service = { apiVersion: "v1", kind: "Service", metadata: { namespace: "infra", name: "envoy" } };
    await system.apply(JSON.stringify({ ...service, spec: { type: "LoadBalancer", ports: [{ port: 443 }] } }));
    const patch = JSON.stringify({ status: { loadBalancer: { ingress: [{ ip }] } } });
    await system.kubectl(..."-n infra patch service envoy --subresource=status --type=merge -p".split(" "), patch);
    const listeners = [listener("http", { ...from("All") })];
    const status = { conditions: ACCEPTED, addresses: [{ type: "IPAddress", value: ip }] };
    await api.put("Gateway", "infra", "found", { gatewayClassName: "unheard-of", listeners }, status);
    await api.route("HTTPRoute", "found", "found", ["found.example.com"]);
    await until("its target to be found", async () => {
      const { names } = await (await system.leader()).status();
      return names.find(({ name }) => name === "found.example.com")?.target === foundName("infra", "envoy");
    });
  });

  it("follows a Gateway that is deleted and created again", async () => {
    await api.gateway("moving", [listener("http", { ...from("All") })]);
    await api.route("HTTPRoute", "moving", "moving", ["moving.example.com"]);
    await published("moving.example.com");
    await system.kubectl("-n", "infra", "delete", "gateway", "moving");
    await refused("moving.example.com", "gateway-not-found");
    await unpublished("moving.example.com");
    await api.gateway("moving", [listener("http", { ...from("All") })]);
    await published("moving.example.com");
  });
});

describe("an API server that restarts", () => {
  it("does not serve every kind at first: no name leaves, and everything is followed again", async () => {
    const before = [...(await system.publishedNames())];
    await system.cluster.restartApiServer("SIGKILL");
    await until("no problem", async () => (await problems()).length === 0, 60_000);
    await api.route("HTTPRoute", "afterwards", "open", ["afterwards.example.com"]);
    await published("afterwards.example.com");
    // Names are in the order of their first publication. A name that had left would come after the new one.
    assert.deepEqual([...(await system.publishedNames())], [...before, "afterwards.example.com"]);
  });
});

describe("the definitions, removed while everything runs", () => {
  it("end their names like those of deleted objects; installed again, they are followed again", async () => {
    await api.route("HTTPRoute", "many", "open", NAMES);
    await published(...NAMES);
    await system.kubectl("delete", "crd", ...CRDS, "--timeout=60s");
    await unpublished(...NAMES, "grpc.example.com");
    await until("no problem", async () => (await problems()).length === 0, 60_000);
    await installGatewayApi(system);
    await api.gateway("open", [listener("http", { ...from("All") })]);
    await api.route("HTTPRoute", "many", "open", NAMES);
    await published(...NAMES);
  });
});

describe("a Gateway with 64 listeners and 1,000 routes", () => {
  const LISTENERS = [...Array(64).keys()].map((index) =>
    listener(`l${index}`, { port: 80, hostname: `*.l${index}.crowd.example.com`, ...from("All") }),
  );
  const nameOf = (index: number) => `r${index}.l${index % 64}.crowd.example.com`;
  const ALL = [...Array(1_000).keys()];

  it("is mapped, and a change of the Gateway reaches the map at once", async () => {
    await api.gateway("crowd", LISTENERS);
    const waiting = [...ALL];
    const worker = async () => {
      for (let index = waiting.pop(); index !== undefined; index = waiting.pop()) {
        await api.route("HTTPRoute", `r${index}`, "crowd", [nameOf(index), `elsewhere${index}.example.com`], {
          namespace: "crowd",
        });
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
    await published(...ALL.map(nameOf));
    await api.gateway("crowd", LISTENERS.slice(1));
    await unpublished(...ALL.filter((index) => index % 64 === 0).map(nameOf));
    await api.gateway("crowd", LISTENERS);
    await published(...ALL.map(nameOf));
    assert.ok(!(await system.publishedNames()).has("elsewhere1.example.com"));
  });

  it("that is deleted does not remove the names: the guard holds them until it exists again", async () => {
    await system.kubectl("-n", "infra", "delete", "gateway", "crowd");
    await refused(nameOf(1), "gateway-not-found");
    await until("a hold", async () => (await system.map()).hold !== undefined);
    await published(...ALL.map(nameOf));
    await api.gateway("crowd", LISTENERS);
    await until("no hold", async () => (await system.map()).hold === undefined);
    await published(...ALL.map(nameOf));
  });
});
