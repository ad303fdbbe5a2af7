import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { listenersOf } from "#lib/documents/listeners.ts";
import { listenersOfPublished, type PublishedTarget } from "#lib/documents/targets-format.ts";
import { fc } from "#test/property.ts";
import { targetsIn, targetsObject } from "#test/published.ts";
import { type RelayedInput, relayedTargets } from "./relayed-targets.ts";
import { foundName, viewService } from "./service-view.ts";
import { type Target, targetOfService } from "./target.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const HOUR = 3_600_000;

const CLUSTER_IP = "198.51.100.80";

function target(name: string, change: object = {}): TargetConfig {
  const service = { namespace: "edge", name };
  const [parsed] = parseConfig({ targets: [{ name, upstream: { service }, ...change }] }).targets;
  assert.ok(parsed);
  return parsed;
}

/** A discovered target. */
function found(name: string, change: object = {}): Target {
  return { ...target(name, change), upstreamIPs: [CLUSTER_IP] };
}

/** `others`: the targets without names whose Services exist. */
function plan({ others = [], ...change }: Partial<RelayedInput> & { readonly others?: readonly Target[] }) {
  const { wanted = [] } = change;
  return relayedTargets({
    wanted,
    definitionOf: (target) => [...wanted, ...others].find(({ name }) => name === target),
    discovers: true,
    remembered: [],
    addresses: new Map(),
    clusterDomain: "cozy.example",
    maxTargets: 100,
    keepMs: HOUR,
    now: NOW,
    ...change,
  });
}

const names = (targets: readonly PublishedTarget[]) => targets.map(({ name }) => name);

test("configured and discovered targets are relayed in name order, except those without a header", () => {
  const direct = target("direct", { ports: [{ port: 80, protocol: "none" }] });
  const { targets } = plan({ wanted: [target("b"), direct, found("a")] });
  assert.deepEqual(names(targets), ["a", "b"]);
  assert.equal(targets[0]?.upstream, "a.edge.svc.cozy.example.");
  assert.deepEqual(
    targets[0]?.ports.map(({ port, upstreamPort, protocol }) => [port, upstreamPort, protocol]),
    [
      [80, 80, "v1"],
      [443, 443, "v1"],
    ],
  );
});

test("addresses come from the config, else from the front Service, else they are not known yet", () => {
  const given = target("given", { clusterIPs: ["192.0.2.7"] });
  const { targets } = plan({
    wanted: [given, found("f"), found("n")],
    addresses: new Map([["f", ["10.0.0.1"]]]),
  });
  assert.deepEqual(
    targets.map(({ name, clusterIPs }) => [name, clusterIPs]),
    [
      ["f", ["10.0.0.1"]],
      ["given", ["192.0.2.7"]],
      ["n", []],
    ],
  );
});

test("an unused target is kept with its ports and upstream for some time, and then removed", () => {
  const { targets: before } = plan({ wanted: [found("a")] });
  const others = [found("a")];
  const unused = plan({ remembered: before, others, now: NOW + 5 });
  assert.deepEqual(unused.targets, [{ ...before[0], unusedSince: new Date(NOW + 5).toISOString() }]);
  assert.equal(unused.nextDropMs, HOUR);
  const later = plan({ remembered: unused.targets, others, now: NOW + HOUR });
  assert.deepEqual(later.targets, unused.targets);
  const gone = plan({ remembered: unused.targets, now: NOW + 5 + HOUR });
  assert.deepEqual([gone.targets, names(gone.dropped), gone.nextDropMs], [[], ["a"], undefined]);
});

test("a target whose Service is gone or of another type relays nothing, but keeps its ports and front", () => {
  const { targets: before } = plan({ wanted: [found("a")], addresses: new Map([["a", ["198.51.100.1"]]]) });
  const gone = plan({ remembered: before });
  assert.deepEqual(gone.targets, [{ ...before[0], upstreamIPs: [], unusedSince: new Date(NOW).toISOString() }]);
  assert.deepEqual(listenersOfPublished(gone), []);
  const back = plan({ wanted: [found("a")], remembered: gone.targets, addresses: new Map([["a", ["198.51.100.1"]]]) });
  assert.deepEqual(back.targets, before);
});

test("a target that was removed from the config is still relayed", () => {
  const ports = [{ port: 443, listenPort: 15_001, upstreamPort: 443, protocol: "v1" as const }];
  const removed = { name: "edge", upstream: "lb.edge.svc.cluster.local.", ports, clusterIPs: ["198.51.100.1"] };
  const { targets } = plan({ remembered: [removed] });
  assert.equal(targets[0]?.name, "edge");
  assert.equal(targets[0]?.upstreamIPs, undefined);
});

test("above the limit, existing targets stay and others wait", () => {
  const elsewhere = (name: string) => found(name, { upstream: { service: { namespace: name, name } } });
  const { targets: before } = plan({ wanted: [elsewhere("m")] });
  const { targets, refused } = plan({
    wanted: [elsewhere("a"), elsewhere("m"), elsewhere("z")],
    remembered: before,
    maxTargets: 2,
  });
  assert.deepEqual([names(targets), [...refused.keys()]], [["a", "m"], ["z"]]);
});

test("an unused target loses a listen port if the config assigns it to another target", () => {
  const { targets: before } = plan({ wanted: [found("a")] });
  const [first, second] = before[0]?.ports ?? [];
  const fixed = target("fixed", { ports: [{ port: 80, listenPort: first?.listenPort }] });
  const { targets } = plan({ wanted: [fixed], remembered: before });
  assert.deepEqual(targets.find(({ name }) => name === "a")?.ports, [second]);
  assert.equal(targets.find(({ name }) => name === "fixed")?.ports[0]?.listenPort, first?.listenPort);
});

test("property: ports stay the same while targets come and go, and every document can be read", () => {
  const some = fc.uniqueArray(fc.integer({ min: 0, max: 400 }), { maxLength: 60 });
  fc.assert(
    fc.property(fc.array(some, { minLength: 2, maxLength: 6 }), (rounds) => {
      let remembered: readonly PublishedTarget[] = [];
      for (const [round, present] of rounds.entries()) {
        const { targets } = plan({
          wanted: present.map((index) => found(`t-${index}`)),
          remembered,
          now: NOW + round * (HOUR / 2),
        });
        const before = new Map(remembered.map(({ name, ports }) => [name, ports.map(({ listenPort }) => listenPort)]));
        for (const { name, ports } of targets) {
          const listenPorts = ports.map(({ listenPort }) => listenPort);
          assert.deepEqual(listenPorts, before.get(name) ?? listenPorts);
        }
        assert.doesNotThrow(() => targetsIn([targetsObject(targets)]));
        remembered = targets;
      }
    }),
    { numRuns: 30 },
  );
});

// A tenant can create any number of LoadBalancer Services, each with any number of ports.

/** The target of a Service that the API server has; undefined: it is refused. */
function serviceOf(namespace: string, name: string, ports: number): Target | undefined {
  const spec = {
    clusterIPs: ["198.51.100.4"],
    ports: Array.from({ length: ports }, (_, index) => ({ port: 1_000 + index, protocol: "TCP" })),
  };
  const target = targetOfService(viewService({ metadata: { namespace, name }, spec }, "v1"));
  return "code" in target ? undefined : target;
}

function services(namespace: string, count: number, ports: number): Target[] {
  return Array.from({ length: count }, (_, index) => serviceOf(namespace, `lb-${index}`, ports)).filter(
    (target) => target !== undefined,
  );
}

/** Every proxy reads what is published. */
function planFound(found: readonly Target[], remembered: readonly PublishedTarget[] = [], now = NOW) {
  const { maxTargets } = parseConfig({}).discovery;
  const result = plan({ wanted: found, remembered, maxTargets, keepMs: 24 * HOUR, now });
  assert.ok(targetsIn([targetsObject(result.targets)]));
  return result;
}

const edge = foundName("edge", "lb-0");

test("with 10,000 ports of Services, a tenant gets at most half, others get theirs, and the search ends", () => {
  const { targets, refused } = planFound([...services("attack", 50, 200), ...services("edge", 1, 2)]);
  assert.equal(targets.filter(({ upstream }) => upstream.includes(".attack.")).length, 5);
  assert.ok(targets.some(({ name }) => name === edge));
  assert.deepEqual(new Set([...refused.values()].map(({ code }) => code)), new Set(["too-many-targets"]));
  assert.equal(refused.size, 45);
});

test("existing targets stay: an attack does not change their ports", () => {
  const before = planFound(services("edge", 3, 40)).targets;
  const after = planFound([...services("attack", 400, 200), ...services("edge", 3, 40)], before).targets;
  assert.deepEqual(
    after.filter(({ upstream }) => upstream.includes(".edge.")),
    before,
  );
});

test("a growing target keeps its ports, gets at most its namespace's share, and has a reason", () => {
  const before = planFound(services("attack", 10, 100)).targets;
  assert.equal(before.length, 10);
  const { targets, refused } = planFound(services("attack", 10, 101), before);
  assert.deepEqual(targets, before);
  assert.equal(refused.size, 10);
});

test("Services that are created and deleted all day use at most their namespace's share", () => {
  let remembered: readonly PublishedTarget[] = [];
  for (let round = 0; round < 60; round += 1) {
    const found = Array.from({ length: 20 }, (_, index) => serviceOf("attack", `r${round}-${index}`, 10));
    remembered = planFound(
      found.filter((target) => target !== undefined),
      remembered,
      NOW + round * 60_000,
    ).targets;
  }
  assert.equal(remembered.length, 100, "1,000 ports, half of all, with those that are kept");
  const { targets } = planFound(services("edge", 1, 2), remembered, NOW + HOUR);
  assert.ok(targets.some(({ name, unusedSince }) => name === edge && unusedSince === undefined));
  assert.equal(targets.length, 101);
});

test("the search for listen ports ends when no port is free, and existing ports stay", () => {
  const ports = Array.from({ length: 200 }, (_, index) => ({ port: index + 1, protocol: "v1" as const }));
  const many = Array.from({ length: 51 }, (_, index) => ({
    ...parseConfig({}).targets[0],
    name: `t-${index}`,
    upstream: { host: "h" },
    classes: [],
    clusterIPs: [],
    ports,
  }));
  const listeners = listenersOf(many);
  assert.equal(listeners.length, 10_000);
  assert.equal(new Set(listeners.map(({ listenPort }) => listenPort)).size, 10_000);
});
