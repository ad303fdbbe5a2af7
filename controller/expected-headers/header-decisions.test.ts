import assert from "node:assert/strict";
import { test } from "node:test";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import type { Target } from "../targets/target.ts";
import { type ExampleOf, HeaderDecisions } from "./header-decisions.ts";

function found(namespace: string, service = "edge"): Target {
  return {
    name: `${namespace}-${service}`,
    upstream: { service: { namespace, name: service } },
    upstreamIPs: ["198.51.100.9"],
    classes: [],
    clusterIPs: [],
    ports: [80, 443].map((port) => ({ port, protocol: "v1", stated: "nobody" })),
  };
}

interface Given {
  readonly targets?: readonly Target[];
  readonly exampleOf?: ExampleOf;
  /** What was published before. */
  readonly published?: readonly PublishedTarget[];
}

function asked(listed: readonly PublishedTarget[], given: Given = {}) {
  const { targets = [found("infra")], exampleOf = () => "shop.example.com", published = [] } = given;
  const byName = new Map(targets.map((target) => [target.name, target]));
  const catalog = { configured: () => [], discovers: true, synced: true, found: (name: string) => byName.get(name) };
  const headers = new HeaderDecisions({
    catalog: { ...catalog, follow() {}, mapsAlways: () => false },
    clusterDomain: "cluster.local",
    preferred: "v1",
  });
  headers.learn(published);
  return headers.withAskedPorts(listed, new Set(byName.keys()), exampleOf);
}

const ASK = [
  { port: 80, speaks: "http", name: "shop.example.com", upstreamPort: 80 },
  { port: 443, speaks: "tls", name: "shop.example.com", upstreamPort: 443 },
] as const;
const ADDED: PublishedTarget = {
  name: "infra-edge",
  namespace: "infra",
  upstream: "edge.infra.svc.cluster.local.",
  upstreamIPs: ["198.51.100.9"],
  ports: [],
  clusterIPs: [],
  ask: ASK,
};
const RELAYED: PublishedTarget = {
  name: "infra-edge",
  upstream: "edge.infra.svc.cluster.local.",
  ports: [{ port: 443, listenPort: 15_000, upstreamPort: 443, protocol: "v1" }],
  clusterIPs: ["10.96.0.9"],
};

test("each target gets its ports to ask, whether it is relayed or not yet; other targets stay as they are", () => {
  const other = { ...RELAYED, name: "other" };
  assert.deepEqual(asked([other]), [other, ADDED]);
  const { ports, clusterIPs } = RELAYED;
  assert.deepEqual(asked([RELAYED, other]), [{ ...ADDED, ports, clusterIPs }, other]);
});

test("a target keeps its server name while it has it, then takes another; without any name it is not asked", () => {
  const names = new Set(["a.example.com", "*.example.com"]);
  const exampleOf = (_: string, last?: string) => (last !== undefined && names.has(last) ? last : [...names][0]);
  const nameAfter = (last: string | undefined) => {
    const published = last === undefined ? [] : [{ ...ADDED, ask: ASK.map((each) => ({ ...each, name: last })) }];
    return asked([], { exampleOf, published })[0]?.ask?.[0]?.name;
  };
  assert.equal(nameAfter("b.example.com"), "a.example.com");
  names.delete("a.example.com");
  assert.equal(nameAfter("a.example.com"), "switchback-asks.example.com");
  names.clear();
  assert.equal(nameAfter("b.example.com"), "b.example.com", "until the target is not asked any more");
  assert.equal(nameAfter(undefined), undefined);
});

test("at most 2,000 ports are asked, 200 of a namespace; those that are asked already stay", () => {
  const counted = (targets: readonly Target[], published: readonly PublishedTarget[] = []) =>
    asked([], { targets, published }).flatMap(({ name, ask = [] }) => ask.map(() => name));
  const many = Array.from({ length: 1_100 }, (_, index) => found(`n${index}`));
  assert.equal(counted(many).length, 2_000);
  assert.ok(counted([...many, found("old")], [{ ...ADDED, name: "old-edge" }]).includes("old-edge"));
  const crowd = Array.from({ length: 300 }, (_, index) => found("crowd", `s${index}`));
  const names = counted([...crowd, found("late")]);
  assert.deepEqual([names.length, names.filter((name) => name === "late-edge").length], [202, 2]);
});
