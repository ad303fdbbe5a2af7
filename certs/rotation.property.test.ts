import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import {
  BACKDATE_MS,
  type CertFacts,
  type LeafFacts,
  LOST_LEAF_WAIT_MS,
  planRotation,
  type RotationState,
  renewAt,
  type StepName,
} from "./rotation.ts";

/**
 * A world in which API servers and webhook replicas are late, each by up to the overlap. At any moment some API server
 * may still have any bundle of the last overlap, and some replica may still serve any leaf of it.
 */
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const CA_DAYS = 30;
const LEAF_DAYS = 3;
const OVERLAP = 10 * MINUTE;

interface World {
  now: number;
  ca: Pick<RotationState, "signer" | "next" | "nextSince" | "previous" | "previousSince"> | undefined;
  leaf: (LeafFacts & { readonly witnesses: readonly CertFacts[] }) | undefined;
  /** The live caBundle; undefined: no webhook configuration. */
  bundle: readonly CertFacts[] | undefined;
  /** Everything that was ever published, and since when. */
  readonly bundles: { readonly from: number; readonly ids: ReadonlySet<string> }[];
  readonly leaves: { readonly from: number; readonly leaf: LeafFacts }[];
  made: number;
}

const EMPTY = { signer: undefined, next: undefined, nextSince: undefined, previous: [], previousSince: undefined };

function make(world: World, days: number, limit = Number.POSITIVE_INFINITY): CertFacts {
  world.made += 1;
  const notAfter = Math.min(world.now + days * DAY, limit);
  return { id: `c${world.made}`, notBefore: world.now - BACKDATE_MS, notAfter };
}

const unique = (certs: readonly CertFacts[]) => [...new Map(certs.map((cert) => [cert.id, cert])).values()];

/** Reads the state back as `state.ts` does. */
function seen(world: World): { ca: NonNullable<World["ca"]>; trusted: CertFacts[]; state: RotationState } {
  const witnesses = unique([...(world.leaf?.witnesses ?? []), ...(world.bundle ?? [])]);
  const ca = world.ca ?? { ...EMPTY, previous: witnesses.filter(({ notAfter }) => world.now < notAfter) };
  const trusted = [ca.next, ca.signer, ...ca.previous].filter((cert) => cert !== undefined);
  const fault = world.ca === undefined && witnesses.length > 0 ? { code: "ca-secret-lost", text: "gone" } : undefined;
  const same = world.bundle?.map(({ id }) => id).join() === trusted.map(({ id }) => id).join();
  const bundle = world.bundle === undefined ? "absent" : same ? "current" : "behind";
  const signedBy = trusted.find(({ id }) => id === world.leaf?.signedBy)?.id;
  const leaf = world.leaf && { ...world.leaf, signedBy };
  return { ca, trusted, state: { ...ca, leaf, leafFault: undefined, fault, bundle } };
}

/** Writes one step as `reconcile.ts` does. */
function carryOut(world: World, step: StepName): void {
  const { ca, trusted } = seen(world);
  const { now } = world;
  if (step === "create-signer") world.ca = { ...ca, signer: make(world, CA_DAYS) };
  if (step === "create-next") world.ca = { ...ca, next: make(world, CA_DAYS), nextSince: undefined };
  if (step === "repair") world.ca = ca;
  if (step === "stamp-next") world.ca = { ...ca, nextSince: now };
  if (step === "promote") {
    world.ca = { ...EMPTY, signer: ca.next, previous: ca.signer ? [ca.signer, ...ca.previous] : ca.previous };
  }
  if (step === "stamp-previous") world.ca = { ...ca, previousSince: now };
  if (step === "drop-previous") world.ca = { ...ca, previous: [], previousSince: undefined };
  if (step === "publish") {
    world.bundle = trusted;
    world.bundles.push({ from: now, ids: new Set(trusted.map(({ id }) => id)) });
  }
  if (step === "issue-leaf" && ca.signer) {
    const leaf = { ...make(world, LEAF_DAYS, ca.signer.notAfter), signedBy: ca.signer.id, coversNames: true };
    world.leaf = { ...leaf, witnesses: trusted };
    // After an outage, every leaf that could be served has expired. Then only the live objects matter.
    const outage = !inUse(world.leaves, now, OVERLAP).some(({ leaf: old }) => now < old.notAfter);
    if (outage) world.bundles.splice(0, world.bundles.length - (world.bundle === undefined ? 0 : 1));
    world.leaves.push({ from: now, leaf });
  }
}

/** The entries of a history that may still be in use: an entry is in use until `lag` after the next one. */
function inUse<T extends { readonly from: number }>(history: readonly T[], now: number, lag: number): T[] {
  return history.filter((_, at) => (history[at + 1]?.from ?? Number.POSITIVE_INFINITY) > now - lag);
}

function checkTrust(world: World, bundleLag: number): void {
  for (const { leaf, from } of inUse(world.leaves, world.now, OVERLAP)) {
    if (leaf.notAfter <= world.now) continue;
    for (const bundle of inUse(world.bundles, world.now, bundleLag)) {
      const at = `at ${world.now}: leaf ${leaf.id} of ${leaf.signedBy} (from ${from}), bundle of ${bundle.from}`;
      assert.ok(bundle.ids.has(leaf.signedBy ?? ""), at);
    }
  }
}

/** A leader's turn. The leader crashes after `steps` steps if the turn has not ended by then. */
function work(world: World, bundleLag: number, steps = 20): void {
  for (let done = 0; done < steps; done += 1) {
    const { step } = planRotation(seen(world).state, world.now, { overlapMs: OVERLAP });
    if (step === "wait") return;
    carryOut(world, step);
    checkTrust(world, bundleLag);
  }
  assert.ok(steps < 20, "a turn ends");
}

function pass(world: World, ms: number, bundleLag: number): void {
  world.now += ms;
  checkTrust(world, bundleLag);
}

const passing = fc.constantFrom(
  ...[SECOND, LOST_LEAF_WAIT_MS - SECOND, LOST_LEAF_WAIT_MS, 3 * MINUTE, OVERLAP - SECOND, OVERLAP, 11 * MINUTE],
  ...[HOUR, 12 * HOUR, 5 * DAY, 40 * DAY],
);
const action = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("work" as const), steps: fc.constantFrom(1, 2, 3, 20) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("pass" as const), ms: passing }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("ca-due" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("wipe-bundle" as const, "uninstall", "install") }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("delete-ca" as const, "delete-leaf") }) },
);

function newWorld(): World {
  return { now: 0, ca: undefined, leaf: undefined, bundle: [], bundles: [], leaves: [], made: 0 };
}

type Action = { do: string; steps?: number; ms?: number };

function perform(world: World, act: Action, bundleLag: number, bothMayVanish: boolean): void {
  if (act.do === "work") work(world, bundleLag, act.steps);
  if (act.do === "pass") pass(world, act.ms ?? 0, bundleLag);
  // Something must be left to infer which CA was trusted.
  const traces = [world.ca, world.leaf, world.bundle?.[0]].filter((trace) => trace !== undefined).length;
  const mayVanish = traces > 1;
  if (act.do === "wipe-bundle" && world.bundle && mayVanish) world.bundle = [];
  if (act.do === "ca-due" && world.ca?.signer)
    pass(world, Math.max(0, renewAt(world.ca.signer) - world.now), bundleLag);
  if (act.do === "install") world.bundle ??= [];
  if (act.do === "uninstall" && mayVanish) {
    world.bundle = undefined;
    world.bundles.length = 0;
  }
  if (act.do === "delete-ca" && mayVanish && (bothMayVanish || world.leaf !== undefined)) world.ca = undefined;
  if (act.do === "delete-leaf" && mayVanish && (bothMayVanish || world.ca?.signer !== undefined)) {
    world.leaf = undefined;
  }
}

/** Without further disturbance, every world is steady after 45 minutes. */
function checkPeace(world: World, bundleLag: number): void {
  world.bundle ??= [];
  for (let minute = 0; minute < 45; minute += 1) {
    work(world, bundleLag);
    pass(world, MINUTE, bundleLag);
  }
  work(world, bundleLag);
  const { state } = seen(world);
  assert.equal(planRotation(state, world.now, { overlapMs: OVERLAP }).reason.code, "steady");
  assert.equal(state.bundle, "current");
  assert.equal(state.leaf?.signedBy, state.signer?.id);
  assert.ok(state.leaf && state.leaf.notAfter > world.now);
  assert.deepEqual([state.next, state.previous], [undefined, []]);
}

test("every leaf that may be served verifies against every bundle in use, even if objects are deleted or wiped", () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 40 }), (actions) => {
      const world = newWorld();
      work(world, OVERLAP);
      for (const act of actions) perform(world, act, OVERLAP, false);
      checkPeace(world, OVERLAP);
    }),
    { numRuns: 500 },
  );
});

test("the same holds if both Secrets are deleted at once and API servers are at most half a minute late", () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 40 }), (actions) => {
      const world = newWorld();
      work(world, LOST_LEAF_WAIT_MS);
      for (const act of actions) perform(world, act, LOST_LEAF_WAIT_MS, true);
      checkPeace(world, LOST_LEAF_WAIT_MS);
    }),
    { numRuns: 500 },
  );
});

test("over a year, leaf and CA are renewed in time, and a new CA is in the bundle before it signs", () => {
  const world = newWorld();
  let signers = 0;
  let last: string | undefined;
  for (let at = 0; at < 365 * DAY; at += 5 * MINUTE) {
    work(world, OVERLAP);
    if (world.ca?.signer?.id !== last) signers += 1;
    last = world.ca?.signer?.id;
    assert.ok(
      (world.leaf?.notAfter ?? 0) - world.now > LEAF_DAYS * DAY * 0.3,
      "the leaf has a third of its lifetime left",
    );
    pass(world, 5 * MINUTE, OVERLAP);
  }
  assert.equal(signers, 19, "one CA in 20 days, and the overlaps");
});
