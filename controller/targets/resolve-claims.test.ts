import assert from "node:assert/strict";
import { test } from "node:test";
import type { Claim, Reason } from "#hostmap/types.ts";
import type { RoutingHints, UnresolvedClaim, UnresolvedClaimSink, UnresolvedSource } from "../sources/types.ts";
import type { LackingEvidence } from "./missing-evidence.ts";
import { resolveSources } from "./resolve-claims.ts";
import { classResolver, type TargetResolver } from "./resolver.ts";

const NONE: Reason = { code: "no-target", text: "nobody serves it" };

function hints(className: string, addresses: readonly string[] = []): RoutingHints {
  return { className, addresses, admitted: addresses.length > 0 };
}

/** The key of an object in the only source. */
const keyOf = (object: string) => object.replace(/^0\//, "");

function open(hostname: string, of: RoutingHints | Reason): UnresolvedClaim {
  return {
    hostname,
    from: { kind: "Ingress", namespace: "shop", name: "web" },
    created: "2026-01-01T00:00:00Z",
    hints: of,
  };
}

test("hints that cannot be resolved affect only their own objects; others get their target", () => {
  const claims = new Map<string, readonly Claim[]>();
  let changed = () => {};
  let odd = "odd";
  const resolver: TargetResolver = {
    start(onChange, onSynced) {
      changed = onChange;
      onSynced();
    },
    resolve: ({ className }) => {
      if (className === odd) throw new Error("out of ideas");
      return `edge-${className}`;
    },
    named: () => undefined,
    state: () => [],
    stop: async () => {},
  };
  const source: UnresolvedSource = {
    start(sink, onSynced) {
      for (const name of ["odd", "web", "api"]) sink(name, [open(`${name}.example.com`, hints(name))]);
      onSynced();
    },
    state: () => [],
    stop: async () => {},
  };
  resolveSources([source], resolver).start(
    (object, some) => claims.set(keyOf(object), some),
    () => {},
  );
  const targets = () => ["odd", "web", "api"].map((name) => claims.get(name)?.[0]?.target);
  const failed = { code: "target-failed", text: "its target could not be found: out of ideas" };
  assert.deepEqual(targets(), [failed, "edge-web", "edge-api"]);
  odd = "web";
  changed();
  assert.deepEqual(targets(), ["edge-odd", failed, "edge-api"]);
});

/** A source and a resolver that the test controls, and the resulting claims. */
function rig() {
  const answers = new Map<string, string | Reason>();
  /** Targets that names may keep without evidence. */
  const keepable = new Set<string>();
  const asked: RoutingHints[] = [];
  let sourceSink: UnresolvedClaimSink = () => {};
  let sourceSynced = () => {};
  let changed = () => {};
  let resolverSynced = () => {};
  const stopped: string[] = [];
  const source: UnresolvedSource = {
    start(sink, onSynced) {
      sourceSink = sink;
      sourceSynced = onSynced;
    },
    state: () => [{ name: "objects", synced: true, problems: [] }],
    stop: async () => void stopped.push("source"),
  };
  const resolver: TargetResolver = {
    start(onChange, onSynced) {
      changed = onChange;
      resolverSynced = onSynced;
    },
    resolve(of) {
      asked.push(of);
      return answers.get(of.className ?? "") ?? NONE;
    },
    mayKeep: (target) => keepable.has(target),
    named: () => undefined,
    state: () => [{ name: "services", synced: true, problems: [] }],
    stop: async () => void stopped.push("resolver"),
  };
  const resolved = resolveSources([source], resolver);
  const reported: string[] = [];
  const claims = new Map<string, readonly Claim[]>();
  const state = { synced: 0 };
  resolved.start(
    (object, objectClaims) => {
      reported.push(keyOf(object));
      claims.set(keyOf(object), objectClaims);
    },
    () => {
      state.synced += 1;
    },
  );
  return {
    resolved,
    answers,
    keepable,
    asked,
    reported,
    claims,
    state,
    stopped,
    object: (key: string, objectClaims: readonly UnresolvedClaim[]) => sourceSink(key, objectClaims),
    sourceSynced: () => sourceSynced(),
    resolverSynced: () => resolverSynced(),
    changed: () => changed(),
    targets: (key: string) =>
      (claims.get(key) ?? []).map(({ target }) => (typeof target === "string" ? target : target.code)),
  };
}

test("nothing is reported before the resolver is synced, because a target may still be found", () => {
  const { object, reported, sourceSynced, resolverSynced, state, answers, targets, changed } = rig();
  object("a", [open("a.example.com", hints("nginx"))]);
  sourceSynced();
  changed();
  assert.deepEqual(reported, []);
  assert.equal(state.synced, 0);
  answers.set("nginx", "edge");
  resolverSynced();
  assert.deepEqual(reported, ["a"]);
  assert.deepEqual(targets("a"), ["edge"]);
  assert.equal(state.synced, 1);
});

test("the result is synced only when the source and the resolver are", () => {
  const { sourceSynced, resolverSynced, state } = rig();
  resolverSynced();
  assert.equal(state.synced, 0);
  sourceSynced();
  assert.equal(state.synced, 1);
});

test("after a change, equal hints are resolved once, and only objects with a new answer are reported", () => {
  const { object, reported, resolverSynced, answers, asked, targets, changed } = rig();
  answers.set("traefik", "other");
  resolverSynced();
  for (let count = 0; count < 50; count += 1) object(`n${count}`, [open(`n${count}.example.com`, hints("nginx"))]);
  object("t", [open("t.example.com", hints("traefik"))]);
  assert.equal(asked.length, 2);
  reported.length = 0;
  answers.set("nginx", "edge");
  changed();
  assert.equal(asked.length, 4);
  assert.equal(reported.length, 50);
  assert.ok(!reported.includes("t"));
  assert.deepEqual(targets("n7"), ["edge"]);
  reported.length = 0;
  changed();
  assert.deepEqual(reported, []);
});

test("a name keeps its target without evidence while it may, and is reported when it no longer may", () => {
  const { object, reported, resolverSynced, answers, keepable, targets, changed } = rig();
  resolverSynced();
  answers.set("nginx", "edge");
  keepable.add("edge");
  object("a", [open("a.example.com", hints("nginx"))]);
  answers.delete("nginx");
  changed();
  assert.deepEqual(targets("a"), ["edge"]);
  reported.length = 0;
  changed();
  assert.deepEqual(reported, []);
  keepable.delete("edge");
  changed();
  assert.deepEqual(reported, ["a"]);
  assert.deepEqual(targets("a"), ["no-target"]);
});

test("an object with two hints is reported when either changes; claims with a reason are not resolved", () => {
  const { object, resolverSynced, answers, targets, changed, asked } = rig();
  resolverSynced();
  object("r", [
    open("a.example.com", hints("one")),
    open("b.example.com", hints("two")),
    open("c.example.com", { code: "ignored", text: "it says so" }),
  ]);
  assert.deepEqual(targets("r"), ["no-target", "no-target", "ignored"]);
  assert.equal(asked.length, 2);
  answers.set("two", "second");
  changed();
  assert.deepEqual(targets("r"), ["no-target", "second", "ignored"]);
});

test("an object with changed hints, or a deleted object, is not reported for its old hints", () => {
  const { object, reported, resolverSynced, answers, targets, changed, asked } = rig();
  resolverSynced();
  object("a", [open("a.example.com", hints("one"))]);
  object("a", [open("a.example.com", hints("two"))]);
  object("b", [open("b.example.com", hints("one"))]);
  object("b", []);
  reported.length = 0;
  asked.length = 0;
  answers.set("one", "first");
  changed();
  assert.deepEqual(reported, []);
  assert.deepEqual(
    asked.map(({ className }) => className),
    ["two"],
  );
  answers.set("two", "second");
  changed();
  assert.deepEqual(targets("a"), ["second"]);
});

test("an object with another host but equal hints stays in its group", () => {
  const { object, resolverSynced, answers, targets, changed } = rig();
  resolverSynced();
  object("a", [open("a.example.com", hints("one"))]);
  object("a", [open("b.example.com", hints("one"))]);
  answers.set("one", "first");
  changed();
  assert.deepEqual(targets("a"), ["first"]);
});

test("a claim includes the public addresses of its name", () => {
  const { object, resolverSynced, claims } = rig();
  resolverSynced();
  object("a", [open("a.example.com", hints("one", ["203.0.113.9"]))]);
  assert.deepEqual(claims.get("a")?.[0]?.publicAddresses, ["203.0.113.9"]);
});

test("state and stop include the source and the resolver", async () => {
  const { resolved, stopped } = rig();
  assert.deepEqual(
    resolved.state().map(({ name }) => name),
    ["objects", "services"],
  );
  await resolved.stop();
  assert.deepEqual(stopped.sort(), ["resolver", "source"]);
});

test("all fields of a claim, with its target and the addresses of its object", () => {
  const { object, answers, claims, sourceSynced, resolverSynced } = rig();
  answers.set("nginx", "edge");
  const refused = { code: "ignored", text: "why" };
  object("a", [open("a.example.com", hints("nginx", ["192.0.2.1"])), open("b.example.com", refused)]);
  sourceSynced();
  resolverSynced();
  const from = { kind: "Ingress", namespace: "shop", name: "web" };
  const created = "2026-01-01T00:00:00Z";
  assert.deepEqual(claims.get("a"), [
    { hostname: "a.example.com", from, created, target: "edge", publicAddresses: ["192.0.2.1"] },
    { hostname: "b.example.com", from, created, target: refused },
  ]);
});

test("any differing field makes hints different, and equal hints are resolved once", () => {
  const { object, asked, sourceSynced, resolverSynced } = rig();
  sourceSynced();
  resolverSynced();
  const base: RoutingHints = { className: "nginx", addresses: ["192.0.2.1"], admitted: true };
  const all: RoutingHints[] = [
    base,
    { ...base, className: undefined },
    { ...base, addresses: [] },
    { ...base, admitted: false },
    { ...base, ports: [443] },
    { ...base, service: { namespace: "a", name: "b" } },
    { ...base, service: { namespace: "b", name: "b" } },
    { ...base, service: { namespace: "a", name: "c" } },
    { ...base, instance: "edge" },
    { ...base, gateway: { namespace: "a", name: "b" } },
    { ...base, gateway: { namespace: "a", name: "b", classNamespace: "c" } },
  ];
  for (const [index, of] of [...all, ...all].entries()) object(`o${index}`, [open("a.example.com", { ...of })]);
  assert.deepEqual(asked, all);
});

test("an object is reported again if its target, code or text changes, and forgotten when it is deleted", () => {
  const { object, changed, reported, resolved, sourceSynced, resolverSynced, answers } = rig();
  sourceSynced();
  resolverSynced();
  object("a", [open("a.example.com", hints("nginx"))]);
  reported.length = 0;
  changed();
  assert.deepEqual(reported, [], "the same reason");
  answers.set("nginx", "edge");
  changed();
  changed();
  assert.deepEqual(reported.splice(0), ["a"]);
  answers.delete("nginx");
  changed();
  assert.deepEqual(reported.splice(0), ["a"]);
  object("a", []);
  assert.deepEqual(reported.splice(0), ["a"]);
  answers.set("nginx", "edge");
  changed();
  assert.deepEqual(reported, []);
  assert.deepEqual(
    resolved.state().map(({ name }) => name),
    ["objects", "services"],
  );
});

test("a claim that only lacks evidence has the target of its class, and is reported when that changes", () => {
  const { object, changed, reported, claims, sourceSynced, resolverSynced, answers } = rig();
  sourceSynced();
  resolverSynced();
  const lacking = (byClass: string | undefined): LackingEvidence => ({ ...NONE, byClass });
  answers.set("nginx", lacking(undefined));
  object("a", [open("a.example.com", hints("nginx"))]);
  const found = () => [claims.get("a")?.[0]?.target, claims.get("a")?.[0]?.lacking];
  assert.deepEqual(found(), [NONE, { byClass: undefined }], "the reason is that of other claims");
  answers.set("nginx", lacking("edge"));
  reported.length = 0;
  changed();
  changed();
  assert.deepEqual([reported, found()], [["a"], [NONE, { byClass: "edge" }]]);
});

/** A source that the test controls. */
function manual(name: string) {
  const handle = { sink: (() => {}) as UnresolvedClaimSink, onSynced: () => {}, isStopped: false };
  const source: UnresolvedSource = {
    start(sink, onSynced) {
      handle.sink = sink;
      handle.onSynced = onSynced;
    },
    state: () => [{ name, synced: true, problems: [] }],
    stop: async () => {
      handle.isStopped = true;
    },
  };
  return { source, handle };
}

test("with several sources, synced is reported once, after the last source; repeated reports are ignored", () => {
  const [one, two] = [manual("one"), manual("two")];
  let synced = 0;
  resolveSources([one.source, two.source], classResolver([])).start(
    () => {},
    () => {
      synced += 1;
    },
  );
  one.handle.onSynced();
  one.handle.onSynced();
  assert.equal(synced, 0);
  two.handle.onSynced();
  two.handle.onSynced();
  assert.equal(synced, 1);
});

test("without sources, the result is synced when the resolver is", () => {
  let synced = 0;
  resolveSources([], classResolver([])).start(
    () => {},
    () => {
      synced += 1;
    },
  );
  assert.equal(synced, 1);
});

test("equal object keys of two kinds do not overwrite each other; state and stop include all sources", async () => {
  const [one, two] = [manual("one"), manual("two")];
  const resolved = resolveSources([one.source, two.source], classResolver([]));
  const counts = new Map<string, number>();
  resolved.start(
    (object, claims) => counts.set(object, claims.length),
    () => {},
  );
  one.handle.sink("shop/web", [open("a.example.com", hints("nginx"))]);
  two.handle.sink("shop/web", []);
  assert.deepEqual([...counts.values()], [1, 0]);
  assert.deepEqual(
    resolved.state().map(({ name }) => name),
    ["one", "two"],
  );
  await resolved.stop();
  assert.ok(one.handle.isStopped && two.handle.isStopped);
});
