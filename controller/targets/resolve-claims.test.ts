import assert from "node:assert/strict";
import { test } from "node:test";
import type { Claim, Reason } from "../../hostmap/types.ts";
import type { RoutingHints, UnresolvedClaim, UnresolvedClaimSink, UnresolvedSource } from "../sources/types.ts";
import { resolveSource } from "./resolve-claims.ts";
import type { TargetResolver } from "./resolver.ts";

const NONE: Reason = { code: "no-target", text: "nobody serves it" };

function hints(className: string, addresses: readonly string[] = []): RoutingHints {
  return { className, addresses, admitted: addresses.length > 0 };
}

function open(hostname: string, of: RoutingHints | Reason): UnresolvedClaim {
  return {
    hostname,
    from: { kind: "Ingress", namespace: "shop", name: "web" },
    created: "2026-01-01T00:00:00Z",
    hints: of,
  };
}

/** A source and a resolver in the test's hands, and what came out of the two. */
function rig() {
  const answers = new Map<string, string>();
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
    state: () => [{ name: "services", synced: true, problems: [] }],
    stop: async () => void stopped.push("resolver"),
  };
  const resolved = resolveSource(source, resolver);
  const told: string[] = [];
  const claims = new Map<string, readonly Claim[]>();
  const state = { synced: 0 };
  resolved.start(
    (object, own) => {
      told.push(object);
      claims.set(object, own);
    },
    () => {
      state.synced += 1;
    },
  );
  return {
    resolved,
    answers,
    asked,
    told,
    claims,
    state,
    stopped,
    object: (key: string, own: readonly UnresolvedClaim[]) => sourceSink(key, own),
    sourceSynced: () => sourceSynced(),
    resolverSynced: () => resolverSynced(),
    changed: () => changed(),
    targets: (key: string) =>
      (claims.get(key) ?? []).map(({ target }) => (typeof target === "string" ? target : target.code)),
  };
}

test("nothing is told before the resolver can answer: no target yet is not no target", () => {
  const { object, told, sourceSynced, resolverSynced, state, answers, targets, changed } = rig();
  object("a", [open("a.example.com", hints("nginx"))]);
  sourceSynced();
  changed();
  assert.deepEqual(told, []);
  assert.equal(state.synced, 0);
  answers.set("nginx", "edge");
  resolverSynced();
  assert.deepEqual(told, ["a"]);
  assert.deepEqual(targets("a"), ["edge"]);
  assert.equal(state.synced, 1);
});

test("synced when the source is, too", () => {
  const { sourceSynced, resolverSynced, state } = rig();
  resolverSynced();
  assert.equal(state.synced, 0);
  sourceSynced();
  assert.equal(state.synced, 1);
});

test("a change asks once a hints and tells only the objects whose answer changed", () => {
  const { object, told, resolverSynced, answers, asked, targets, changed } = rig();
  answers.set("traefik", "other");
  resolverSynced();
  for (let count = 0; count < 50; count += 1) object(`n${count}`, [open(`n${count}.example.com`, hints("nginx"))]);
  object("t", [open("t.example.com", hints("traefik"))]);
  assert.equal(asked.length, 2);
  told.length = 0;
  answers.set("nginx", "edge");
  changed();
  assert.equal(asked.length, 4);
  assert.equal(told.length, 50);
  assert.ok(!told.includes("t"));
  assert.deepEqual(targets("n7"), ["edge"]);
  told.length = 0;
  changed();
  assert.deepEqual(told, []);
});

test("an object with two hints is told when either changes; a reason needs no answer", () => {
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

test("an object that moved to another hints, or is gone, no longer hears of its old one", () => {
  const { object, told, resolverSynced, answers, targets, changed, asked } = rig();
  resolverSynced();
  object("a", [open("a.example.com", hints("one"))]);
  object("a", [open("a.example.com", hints("two"))]);
  object("b", [open("b.example.com", hints("one"))]);
  object("b", []);
  told.length = 0;
  asked.length = 0;
  answers.set("one", "first");
  changed();
  assert.deepEqual(told, []);
  assert.deepEqual(
    asked.map(({ className }) => className),
    ["two"],
  );
  answers.set("two", "second");
  changed();
  assert.deepEqual(targets("a"), ["second"]);
});

test("the same object again, with another host, stays in its group", () => {
  const { object, resolverSynced, answers, targets, changed } = rig();
  resolverSynced();
  object("a", [open("a.example.com", hints("one"))]);
  object("a", [open("b.example.com", hints("one"))]);
  answers.set("one", "first");
  changed();
  assert.deepEqual(targets("a"), ["first"]);
});

test("a claim carries where its name leads in public", () => {
  const { object, resolverSynced, claims } = rig();
  resolverSynced();
  object("a", [open("a.example.com", hints("one", ["203.0.113.9"]))]);
  assert.deepEqual(claims.get("a")?.[0]?.publicAddresses, ["203.0.113.9"]);
});

test("state and stop are those of both", async () => {
  const { resolved, stopped } = rig();
  assert.deepEqual(
    resolved.state().map(({ name }) => name),
    ["objects", "services"],
  );
  await resolved.stop();
  assert.deepEqual(stopped.sort(), ["resolver", "source"]);
});
