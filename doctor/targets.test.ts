import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { install, services, status } from "#test/fakes/doctor-changes.ts";
import { CONFIG, FORBIDDEN, HEALTHY, NGINX, RELAYED } from "#test/fakes/doctor-facts.ts";
import { known } from "./fact.ts";
import type { ClusterFacts } from "./facts.ts";
import { entryFor, type Target, targetBehind, targetsOf } from "./targets.ts";

const [BY_DEFAULT] = CONFIG.targets;
assert.ok(BY_DEFAULT);
/** A target that needs a relay, whatever header its ingress controller expects. */
const CONFIGURED = { ...BY_DEFAULT, ports: BY_DEFAULT.ports.map((port) => ({ ...port, protocol: "v1" as const })) };
const NGINX_NAME = { namespace: "ingress-nginx", name: "ingress-nginx-controller" };

const found = (change: Partial<ClusterFacts>): readonly Target[] => targetsOf({ ...HEALTHY, ...change });

/** Facts with these configured targets and no published ones. */
function configured(...targets: object[]): Partial<ClusterFacts> {
  const all = targets.map((target) => ({ ...CONFIGURED, ...target })) as typeof CONFIG.targets;
  return install({ config: known({ ...CONFIG, targets: all }), targets: known(undefined) });
}

const direct = { name: "found", relayed: false, upstream: "edge/web", ports: [{ port: 80 }, { port: 443 }] };

describe("all targets, sorted by name", () => {
  test("a published target is unchanged", () => {
    const { name, ports } = RELAYED;
    const target = { name, state: "published", upstream: NGINX_NAME, ports, fronted: true } as const;
    assert.deepEqual(found({}), [target]);
    const unused = { ...RELAYED, unusedSince: "2026-01-01T00:00:00Z" };
    assert.deepEqual(found(install({ targets: known([unused]) })), [{ ...target, state: "unused" }]);
    assert.deepEqual(found(install({ config: FORBIDDEN })), [target]);
  });

  test("the upstream is a Service, given by its DNS name, or a host", () => {
    for (const [upstream, expected] of [
      ["web.edge.svc", { namespace: "edge", name: "web" }],
      ["web.edge.svc.cluster.local.", { namespace: "edge", name: "web" }],
      ["web.edge.svcx", "web.edge.svcx"],
      ["a.web.edge.svc", "a.web.edge.svc"],
      ["web.example.com", "web.example.com"],
    ] as const) {
      assert.deepEqual(found(install({ targets: known([{ ...RELAYED, upstream }]) }))[0]?.upstream, expected);
    }
  });

  test("a target with addresses in the configuration has no front Service", () => {
    const fronted = (...clusterIPs: string[]) => {
      const targets = [{ ...CONFIGURED, clusterIPs }];
      return found(install({ config: known({ ...CONFIG, targets }) }))[0]?.fronted;
    };
    assert.deepEqual([fronted(), fronted("198.51.100.9")], [true, false]);
    const waiting = found({ ...configured({ classes: ["nginx"], clusterIPs: ["198.51.100.9"] }) });
    assert.deepEqual([waiting[0]?.state, waiting[0]?.fronted], ["waiting", false]);
  });

  test("a target with protocol auto is withheld until the answer is known, and direct if it expects no header", () => {
    const ports = [{ port: 443, protocol: "auto" }] as const;
    const states = (detect: boolean, clusterIPs: readonly string[], relayed = true) => {
      const config = {
        ...CONFIG,
        discovery: { ...CONFIG.discovery, detect },
        targets: [{ ...CONFIGURED, ports: [...ports] }],
      };
      const map = known({ targets: [{ name: CONFIGURED.name, clusterIPs }], map: { code: "no-map", text: "" } });
      const told = status({ targets: [{ ...direct, name: CONFIGURED.name, relayed }] }).install?.status;
      assert.ok(told);
      const change = install({ config: known(config), targets: known(undefined), map, status: told });
      return found(change).map(({ state }) => state);
    };
    assert.deepEqual(states(false, []), ["waiting"]);
    assert.deepEqual(states(true, []), ["withheld"]);
    assert.deepEqual(states(true, ["198.51.100.9"]), ["waiting"]);
    assert.deepEqual(states(true, ["198.51.100.9"], false), ["direct"]);
  });

  test("a configured target waits to be published if it needs a relay", () => {
    const ports = [
      { port: 80, upstreamPort: 8080, protocol: "v2" },
      { port: 443, protocol: "none" },
    ];
    assert.deepEqual(found(configured({ classes: ["nginx"], ports })), [
      {
        name: CONFIGURED.name,
        state: "waiting",
        upstream: NGINX_NAME,
        ports: [
          { port: 80, upstreamPort: 8080, protocol: "v2", listenPort: undefined },
          { port: 443, upstreamPort: 443, protocol: "none", listenPort: undefined },
        ],
        fronted: true,
      },
    ]);
  });

  test("a configured target is direct if it needs no relay", () => {
    const ports = [{ port: 80, protocol: "none" }];
    const [target] = found(configured({ ports, upstream: { host: "lb.example.com" } }));
    assert.deepEqual([target?.state, target?.upstream, target?.fronted], ["direct", "lb.example.com", false]);
  });

  test("only the default target is idle, and only without its Service", () => {
    const states = (change: Partial<ClusterFacts>) => found(change).map(({ name, state }) => `${name} ${state}`);
    const gone = services();
    assert.deepEqual(states({ ...configured({}), ...gone }), ["ingress-nginx idle"]);
    assert.deepEqual(found({ ...configured({}), ...gone })[0]?.fronted, false);
    assert.deepEqual(states(configured({})), ["ingress-nginx waiting"]);
    assert.deepEqual(states({ ...configured({ classes: ["nginx"] }), ...gone }), ["ingress-nginx waiting"]);
    assert.deepEqual(states({ ...configured({ upstream: { host: "h" } }), ...gone }), ["ingress-nginx waiting"]);
    assert.deepEqual(states({ ...configured({ name: "b" }, { name: "a" }), ...gone }), ["a waiting", "b waiting"]);
  });

  test("a discovered target that is not relayed comes from the controller's status", () => {
    const names = (targets: object[]) => found(status({ targets })).map(({ name }) => name);
    assert.deepEqual(names([direct, { ...direct, name: "a" }]), ["a", "found", "ingress-nginx"]);
    assert.deepEqual(names([{ ...direct, relayed: true }]), ["ingress-nginx"]);
    const ports = [80, 443].map((port) => ({ port, upstreamPort: port, protocol: "none", listenPort: undefined }));
    const expected = { name: "found", state: "direct", upstream: { namespace: "edge", name: "web" }, ports };
    assert.deepEqual(found(status({ targets: [direct] }))[0], { ...expected, fronted: false });
  });

  test("the controller's status does not override a published or configured target", () => {
    const same = status({ targets: [{ ...direct, name: RELAYED.name }] });
    assert.deepEqual(
      found(same).map(({ state }) => state),
      ["published"],
    );
    assert.ok(same.install);
    const config = known({ ...CONFIG, targets: [CONFIGURED] });
    const unpublished = found({ install: { ...same.install, config, targets: known([]) } });
    assert.deepEqual(
      unpublished.map(({ state }) => state),
      ["waiting"],
    );
  });

  test("unreadable facts add no targets", () => {
    assert.deepEqual(found(install({ config: FORBIDDEN, targets: FORBIDDEN, status: FORBIDDEN })), []);
  });
});

describe("the target behind a Service", () => {
  const target = (name: string, state: Target["state"], upstream: Target["upstream"] = NGINX_NAME): Target => {
    return { name, state, upstream, ports: [], fronted: false };
  };

  test("is never a withheld one, which has no names", () => {
    assert.equal(targetBehind([target("a", "withheld")], NGINX), undefined);
  });

  test("is the one in use rather than one that is kept for older pods", () => {
    const all = [
      target("host", "published", "ingress-nginx/ingress-nginx-controller"),
      target("other", "published", { namespace: "edge", name: NGINX_NAME.name }),
      target("old", "unused"),
      target("new", "published"),
      target("newer", "published"),
    ];
    assert.equal(targetBehind(all, NGINX)?.name, "new");
    assert.equal(targetBehind(all.slice(0, 3), NGINX)?.name, "old");
    assert.equal(targetBehind(all.slice(0, 2), NGINX), undefined);
  });

  test("has an entry for a port of its upstream", () => {
    const ports = [{ port: 80, upstreamPort: 8080, protocol: "v1", listenPort: 1 }] as const;
    const one = { ...target("a", "published"), ports };
    assert.deepEqual(
      [entryFor(one, 8080), entryFor(one, 80), entryFor(undefined, 80)],
      [ports[0], undefined, undefined],
    );
  });
});
