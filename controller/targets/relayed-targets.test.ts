import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { configSchema, type TargetConfig } from "../../config/schema.ts";
import { type PublishedTarget, parseTargets, renderTargets } from "../../snapshot/targets-format.ts";
import { type RelayedInput, relayedTargets } from "./relayed-targets.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const HOUR = 3_600_000;

function target(name: string, change: object = {}): TargetConfig {
  const service = { namespace: "edge", name };
  const [parsed] = configSchema.parse({ targets: [{ name, upstream: { service }, ...change }] }).targets;
  assert.ok(parsed);
  return parsed;
}

function plan(change: Partial<RelayedInput>) {
  return relayedTargets({
    configured: [],
    found: [],
    remembered: [],
    addresses: new Map(),
    clusterDomain: "cozy.example",
    maxFound: 100,
    keepMs: HOUR,
    now: NOW,
    ...change,
  });
}

const names = (targets: readonly PublishedTarget[]) => targets.map(({ name }) => name);

test("configured and discovered targets are relayed, in name order; those without a header are not", () => {
  const direct = target("direct", { ports: [{ port: 80, protocol: "none" }] });
  const { targets } = plan({ configured: [target("b"), direct], found: [target("a")] });
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

test("addresses are those of the config, else of the front Service, else none yet", () => {
  const given = target("given", { clusterIPs: ["192.0.2.7"] });
  const { targets } = plan({
    configured: [given],
    found: [target("f"), target("n")],
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

test("an unused target is kept with its ports and upstream, then removed", () => {
  const { targets: before } = plan({ found: [target("a")] });
  const unused = plan({ remembered: before, now: NOW + 5 });
  assert.deepEqual(unused.targets, [{ ...before[0], unusedSince: new Date(NOW + 5).toISOString() }]);
  assert.equal(unused.nextDrop, NOW + 5 + HOUR);
  const later = plan({ remembered: unused.targets, now: NOW + HOUR });
  assert.deepEqual(later.targets, unused.targets);
  const gone = plan({ remembered: unused.targets, now: NOW + 5 + HOUR });
  assert.deepEqual([gone.targets, gone.dropped, gone.nextDrop], [[], ["a"], undefined]);
});

test("a target that is used again is unchanged", () => {
  const { targets: before } = plan({ found: [target("a")] });
  const unused = plan({ remembered: before });
  assert.deepEqual(plan({ found: [target("a")], remembered: unused.targets }).targets, before);
});

test("over the limit existing targets stay, and the others wait", () => {
  const { targets: before } = plan({ found: [target("m")] });
  const { targets, waiting } = plan({
    found: [target("a"), target("m"), target("z")],
    remembered: before,
    maxFound: 2,
  });
  assert.deepEqual([names(targets), waiting], [["a", "m"], ["z"]]);
});

test("a discovered target with a configured one's name waits: the config wins", () => {
  const { targets, waiting } = plan({ configured: [target("a")], found: [target("a", { ports: [{ port: 1 }] })] });
  assert.deepEqual([targets.length, targets[0]?.ports.length, waiting], [1, 2, ["a"]]);
});

test("an unused target loses a listen port that the config assigns to another target", () => {
  const { targets: before } = plan({ found: [target("a")] });
  const [first, second] = before[0]?.ports ?? [];
  const fixed = target("fixed", { ports: [{ port: 80, listenPort: first?.listenPort }] });
  const { targets } = plan({ configured: [fixed], remembered: before });
  assert.deepEqual(targets.find(({ name }) => name === "a")?.ports, [second]);
  assert.equal(targets.find(({ name }) => name === "fixed")?.ports[0]?.listenPort, first?.listenPort);
});

test("property: when targets are added and removed, no port changes while its target stays, and every document can be read", () => {
  const some = fc.uniqueArray(fc.integer({ min: 0, max: 400 }), { maxLength: 60 });
  fc.assert(
    fc.property(fc.array(some, { minLength: 2, maxLength: 6 }), (rounds) => {
      let remembered: readonly PublishedTarget[] = [];
      for (const [round, present] of rounds.entries()) {
        const { targets } = plan({
          found: present.map((index) => target(`t-${index}`)),
          remembered,
          now: NOW + round * (HOUR / 2),
        });
        const before = new Map(remembered.map(({ name, ports }) => [name, ports.map(({ listenPort }) => listenPort)]));
        for (const { name, ports } of targets) {
          const listenPorts = ports.map(({ listenPort }) => listenPort);
          assert.deepEqual(listenPorts, before.get(name) ?? listenPorts);
        }
        const parsed = parseTargets(renderTargets(targets).text);
        assert.ok(!("code" in parsed), "code" in parsed ? parsed.text : "");
        remembered = targets;
      }
    }),
    { numRuns: 30 },
  );
});
