import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { listenersOfPublished, type PublishedTarget } from "#lib/documents/targets-format.ts";
import { fc } from "#test/property.ts";
import { targetsIn, targetsObject } from "#test/published.ts";
import { type RelayedInput, relayedTargets } from "./relayed-targets.ts";
import type { FoundTarget } from "./service-view.ts";

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
function found(name: string, change: object = {}): FoundTarget {
  return { ...target(name, change), upstreamIPs: [CLUSTER_IP] };
}

/** A catalog with the Services of these targets. With `undefined`, targets are not discovered. */
function catalogOf(targets: readonly FoundTarget[] | undefined): RelayedInput["catalog"] {
  return { discovers: targets !== undefined, found: (name) => targets?.find((each) => each.name === name) };
}

function plan(change: Partial<RelayedInput>) {
  return relayedTargets({
    configured: [],
    found: [],
    remembered: [],
    addresses: new Map(),
    clusterDomain: "cozy.example",
    catalog: catalogOf(change.found ?? []),
    limits: { maxTargets: 100, maxPorts: 1_000 },
    keepMs: HOUR,
    now: NOW,
    ...change,
  });
}

const names = (targets: readonly PublishedTarget[]) => targets.map(({ name }) => name);

test("configured and discovered targets are relayed in name order, except those without a header", () => {
  const direct = target("direct", { ports: [{ port: 80, protocol: "none" }] });
  const { targets } = plan({ configured: [target("b"), direct], found: [found("a")] });
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
    configured: [given],
    found: [found("f"), found("n")],
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
  const { targets: before } = plan({ found: [found("a")] });
  const catalog = catalogOf([found("a")]);
  const unused = plan({ remembered: before, catalog, now: NOW + 5 });
  assert.deepEqual(unused.targets, [{ ...before[0], unusedSince: new Date(NOW + 5).toISOString() }]);
  assert.equal(unused.nextDropMs, HOUR);
  const later = plan({ remembered: unused.targets, catalog, now: NOW + HOUR });
  assert.deepEqual(later.targets, unused.targets);
  const gone = plan({ remembered: unused.targets, now: NOW + 5 + HOUR });
  assert.deepEqual([gone.targets, gone.dropped, gone.nextDropMs], [[], ["a"], undefined]);
});

test("a target whose Service is gone or of another type relays nothing, but keeps its ports and front", () => {
  const { targets: before } = plan({ found: [found("a")], addresses: new Map([["a", ["198.51.100.1"]]]) });
  const gone = plan({ remembered: before, catalog: catalogOf([]) });
  assert.deepEqual(gone.targets, [{ ...before[0], upstreamIPs: [], unusedSince: new Date(NOW).toISOString() }]);
  assert.deepEqual(listenersOfPublished(gone), []);
  const back = plan({ found: [found("a")], remembered: gone.targets, addresses: new Map([["a", ["198.51.100.1"]]]) });
  assert.deepEqual(back.targets, before);
});

test("a target that was removed from the config is still relayed", () => {
  const ports = [{ port: 443, listenPort: 15_001, upstreamPort: 443, protocol: "v1" as const }];
  const removed = { name: "edge", upstream: "lb.edge.svc.cluster.local.", ports, clusterIPs: ["198.51.100.1"] };
  const { targets } = plan({ remembered: [removed], catalog: catalogOf([]) });
  assert.equal(targets[0]?.name, "edge");
  assert.equal(targets[0]?.upstreamIPs, undefined);
});

test("a target that is used again has the same ports and upstream", () => {
  const { targets: before } = plan({ found: [found("a")] });
  const unused = plan({ remembered: before });
  assert.deepEqual(plan({ found: [found("a")], remembered: unused.targets }).targets, before);
});

test("above the limit, existing targets stay and others wait", () => {
  const elsewhere = (name: string) => found(name, { upstream: { service: { namespace: name, name } } });
  const { targets: before } = plan({ found: [elsewhere("m")] });
  const { targets, refused } = plan({
    found: [elsewhere("a"), elsewhere("m"), elsewhere("z")],
    remembered: before,
    limits: { maxTargets: 2, maxPorts: 1_000 },
  });
  assert.deepEqual([names(targets), [...refused.keys()]], [["a", "m"], ["z"]]);
});

test("an unused target loses a listen port if the config assigns it to another target", () => {
  const { targets: before } = plan({ found: [found("a")] });
  const [first, second] = before[0]?.ports ?? [];
  const fixed = target("fixed", { ports: [{ port: 80, listenPort: first?.listenPort }] });
  const { targets } = plan({ configured: [fixed], remembered: before });
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
          found: present.map((index) => found(`t-${index}`)),
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
