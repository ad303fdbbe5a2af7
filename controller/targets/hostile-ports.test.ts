import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { listenersOf } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { targetsIn, targetsObject } from "#test/published.ts";
import { type RelayedInput, type RelayedTargets, relayedTargets } from "./relayed-targets.ts";
import { type FoundTarget, foundName, targetOfService, viewService } from "./service-view.ts";

// A tenant can create any number of LoadBalancer Services, each with any number of ports.

const NOW = Date.parse("2026-01-01T00:00:00Z");
const HOUR_MS = 3_600_000;
const { discovery } = parseConfig({});

/** The target of a Service that the API server has; undefined: it is refused. */
function serviceOf(namespace: string, name: string, ports: number): FoundTarget | undefined {
  const spec = {
    clusterIPs: ["198.51.100.4"],
    ports: Array.from({ length: ports }, (_, index) => ({ port: 1_000 + index, protocol: "TCP" })),
  };
  const target = targetOfService(viewService({ metadata: { namespace, name }, spec }, "v1"));
  return "code" in target ? undefined : target;
}

function services(namespace: string, count: number, ports: number): FoundTarget[] {
  return Array.from({ length: count }, (_, index) => serviceOf(namespace, `lb-${index}`, ports)).filter(
    (target) => target !== undefined,
  );
}

function plan(found: readonly FoundTarget[], remembered: readonly PublishedTarget[] = [], now = NOW): RelayedTargets {
  const input: RelayedInput = {
    configured: [],
    found,
    catalog: { discovers: true, found: (name) => found.find((each) => each.name === name) },
    remembered,
    addresses: new Map(),
    clusterDomain: "cluster.local",
    limits: discovery,
    keepMs: 24 * HOUR_MS,
    now,
  };
  const result = relayedTargets(input);
  assert.ok(targetsIn([targetsObject(result.targets)]), "every proxy reads what is published");
  return result;
}

const edge = foundName("edge", "lb-0");

test("with 10,000 ports of Services, a tenant gets at most half, others get theirs, and the search ends", () => {
  const { targets, refused } = plan([...services("attack", 50, 200), ...services("edge", 1, 2)]);
  assert.equal(targets.filter(({ upstream }) => upstream.includes(".attack.")).length, 5);
  assert.ok(targets.some(({ name }) => name === edge));
  assert.deepEqual(new Set([...refused.values()].map(({ code }) => code)), new Set(["too-many-targets"]));
  assert.equal(refused.size, 45);
});

test("existing targets stay: an attack does not change their ports", () => {
  const before = plan(services("edge", 3, 40)).targets;
  const after = plan([...services("attack", 400, 200), ...services("edge", 3, 40)], before).targets;
  assert.deepEqual(
    after.filter(({ upstream }) => upstream.includes(".edge.")),
    before,
  );
});

test("a growing target keeps its ports, gets at most its namespace's share, and has a reason", () => {
  const before = plan(services("attack", 10, 100)).targets;
  assert.equal(before.length, 10);
  const { targets, refused } = plan(services("attack", 10, 101), before);
  assert.deepEqual(targets, before);
  assert.equal(refused.size, 10);
});

test("Services that are created and deleted all day use at most their namespace's share", () => {
  let remembered: readonly PublishedTarget[] = [];
  for (let round = 0; round < 60; round += 1) {
    const found = Array.from({ length: 20 }, (_, index) => serviceOf("attack", `r${round}-${index}`, 10));
    remembered = plan(
      found.filter((target) => target !== undefined),
      remembered,
      NOW + round * 60_000,
    ).targets;
  }
  assert.equal(remembered.length, 100, "1,000 ports, half of all, with those that are kept");
  const { targets } = plan(services("edge", 1, 2), remembered, NOW + HOUR_MS);
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
