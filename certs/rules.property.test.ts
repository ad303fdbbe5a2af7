import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { BACKDATE_MS, type CertFacts, type Decision, decide, type Facts, renewAt, type Sights } from "./rules.ts";

/**
 * API servers and webhook replicas are late, each by up to the overlap: some API server may still use any bundle of
 * the last overlap, and some replica may serve any leaf of it. What somebody else breaks is excused for 2 s. Then all
 * API servers have the repaired bundle, but replicas may still be late.
 */
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const CA_DAYS = 30;
const LEAF_DAYS = 9;
const OVERLAP = 10 * MINUTE;
/** Enough writes for any repair. */
const MANY = 12;

interface Leaf extends CertFacts {
  readonly signedBy: string;
  /** The version of the Service's names that it has. */
  readonly names: number;
  /** `ca.crt` */
  readonly offered: string;
}

type Entries = readonly string[];

class World {
  now = 100 * DAY;
  /** How far the leader's wall clock is wrong. */
  skew = 0;
  names = 0;
  isReadable = true;
  ca: CertFacts | undefined;
  leaf: Leaf | undefined;
  /** The caBundle of each entry. Undefined: no configuration. */
  entries: Entries | undefined = ["", ""];
  readonly #certs = new Map<string, CertFacts>();
  #foreign: CertFacts | undefined;
  #sights: Sights = {};
  /** What was stored, and since when. An entry is in use until the overlap after the next one. */
  #bundles: { readonly at: number; readonly entries: Entries }[] = [];
  #leaves: { readonly at: number; readonly leaf: Leaf }[] = [];
  readonly #hopeless = new Set<Leaf>();
  /** All that ever was stored, for backups. */
  readonly past = { cas: [] as CertFacts[], leaves: [] as Leaf[], entries: [] as Entries[] };

  readonly #isStrict: boolean;

  constructor(isStrict = false) {
    this.#isStrict = isStrict;
  }

  get #wall() {
    return this.now + this.skew;
  }

  make(days: number, end = Number.POSITIVE_INFINITY, from = this.#wall): CertFacts {
    const id = `c${this.#certs.size + 1}`;
    const times = { notBefore: from - BACKDATE_MS, notAfter: Math.min(from + days * DAY, end) };
    const cert = { id, pem: `${id}\n`, ...times };
    this.#certs.set(id, cert);
    return cert;
  }

  makeLeaf(signer: CertFacts, offered: string): Leaf {
    const cert = this.make(LEAF_DAYS, signer.notAfter);
    return { ...cert, signedBy: signer.id, names: this.names, offered };
  }

  storeCa(ca: CertFacts | undefined): void {
    this.ca = ca;
    if (ca !== undefined) this.past.cas.push(ca);
  }

  storeLeaf(leaf: Leaf | undefined): void {
    this.leaf = leaf;
    if (leaf === undefined) return;
    this.past.leaves.push(leaf);
    this.#leaves.push({ at: this.now, leaf });
  }

  storeEntries(entries: Entries | undefined): void {
    this.entries = entries;
    if (entries !== undefined) this.past.entries.push(entries);
    // Without a configuration, no API server calls.
    if (entries === undefined) this.#bundles = [];
    this.#bundles.push({ at: this.now, entries: entries ?? [] });
  }

  /** Another leader begins, after `away` milliseconds without any. */
  newLeader(away = 0): void {
    this.#sights = {};
    this.now += away;
  }

  setReadable(isReadable: boolean): void {
    this.isReadable = isReadable;
  }

  setClock(skew: number): void {
    this.skew = skew;
  }

  /** The cluster's domain changes. */
  rename(): void {
    this.names += 1;
  }

  /** `keep` is what another manager keeps of an entry beside its own CA. Without it, the bundle is not changed. */
  storeForeign(keep?: (text: string) => string): void {
    if (this.#foreign === undefined || this.now > renewAt(this.#foreign)) this.#foreign = this.make(CA_DAYS);
    const ca = this.#foreign;
    this.storeLeaf(this.makeLeaf(ca, ca.pem));
    if (keep !== undefined) this.storeEntries(this.entries?.map((text) => keep(text) + ca.pem));
  }

  /** Somebody restores a backup of any time. */
  restore(what: "ca" | "leaf" | "bundle", pick: number): void {
    const one = <T>(of: readonly T[]) => of[pick % of.length];
    if (what === "ca") this.storeCa(one(this.past.cas));
    if (what === "leaf") this.storeLeaf(one(this.past.leaves));
    if (what === "bundle") this.storeEntries(one(this.past.entries));
  }

  #parse(text: string): CertFacts[] {
    return text.split("\n").flatMap((id) => this.#certs.get(id) ?? []);
  }

  #facts(): Facts {
    const { ca: signer, leaf, entries } = this;
    return {
      signer,
      leaf: leaf && { ...leaf, coversNames: leaf.names === this.names, chainsTo: ({ id }) => id === leaf.signedBy },
      offered: this.#parse(leaf?.offered ?? ""),
      entries: this.isReadable ? (entries ?? []).map((text) => ({ text, authorities: this.#parse(text) })) : undefined,
    };
  }

  decision(): Decision {
    const decision = decide(this.#facts(), this.#sights, { wall: this.#wall, steady: this.now }, OVERLAP);
    this.#sights = decision.sights;
    return decision;
  }

  /** Whether an API server with these entries accepts the leaf from each of them, by its own clock and the leader's. */
  accepts(entries: Entries, { signedBy, names, ...leaf }: Leaf): boolean {
    const authority = this.#certs.get(signedBy);
    const isValid = (cert = leaf as CertFacts) =>
      [this.now, this.#wall].every((now) => cert.notBefore <= now && now < cert.notAfter);
    const has = (text: string) => this.#parse(text).some(({ id }) => id === signedBy);
    return names === this.names && isValid() && isValid(authority) && entries.every(has);
  }

  #inUse<T extends { readonly at: number }>(history: readonly T[]): T[] {
    return history.filter((_, at) => (history[at + 1]?.at ?? Number.POSITIVE_INFINITY) > this.now - OVERLAP);
  }

  /** Leaves that replicas may serve, without those that no API server accepts, whatever its bundle. */
  #served(): Leaf[] {
    return this.#inUse(this.#leaves).flatMap(({ leaf }) =>
      this.accepts([], leaf) && !this.#hopeless.has(leaf) ? leaf : [],
    );
  }

  /** A leaf in use and a bundle in use that does not have its CA. */
  #distrust(): string | undefined {
    for (const leaf of this.#served()) {
      for (const { at, entries } of this.#inUse(this.#bundles)) {
        if (!this.accepts(entries, leaf))
          return `${leaf.id} of ${leaf.signedBy}, and ${JSON.stringify(entries)} of ${at}`;
      }
    }
    return undefined;
  }

  /** Whether a leaf has to be issued at once. Without a signer and a bundle nobody can, and the old one stays. */
  #needsLeaf(): boolean {
    const { leaf, entries = [] } = this;
    if (!this.isReadable && this.ca === undefined) return false;
    return leaf === undefined || !this.accepts(entries, leaf);
  }

  /** No trace is left of the CA of such a leaf, or the bundle cannot be changed to trust a leaf that it does not. */
  #forgetHopeless(): void {
    const traces = [...(this.entries ?? []), this.leaf?.offered ?? "", this.ca?.pem ?? ""].flatMap((text) =>
      this.#parse(text).map(({ id }) => id),
    );
    for (const { leaf } of this.#leaves) {
      if (
        !traces.includes(leaf.signedBy) ||
        (leaf === this.leaf && !this.isReadable && !this.accepts(this.entries ?? [], leaf))
      )
        this.#hopeless.add(leaf);
    }
  }

  /** A full bundle may have no room for the CA of a former leaf. */
  #leaveOut(bundle: string): void {
    const ids = this.#parse(bundle).map(({ id }) => id);
    if (ids.length < 4) return;
    for (const { leaf } of this.#leaves)
      if (leaf.id !== this.leaf?.id && !ids.includes(leaf.signedBy)) this.#hopeless.add(leaf);
  }

  /** The leader works until nothing is due, or until it crashes after some writes. Each write must keep the trust. */
  work(writes = MANY): void {
    const isBroken = this.#distrust() !== undefined || this.#needsLeaf();
    if (isBroken) this.#forgetHopeless();
    for (let left = writes; left > 0; left -= 1) {
      const { write, bundle } = this.decision();
      if (write === undefined) break;
      assert.ok(write !== "signer" || this.isReadable, "no CA is made while nobody knows which CAs are trusted");
      if (write === "signer") this.storeCa(this.make(CA_DAYS));
      if (write === "bundle") this.storeEntries((this.entries ?? []).map(() => bundle));
      if (write === "bundle" && !this.#isStrict) this.#leaveOut(bundle);
      if (write === "leaf") this.storeLeaf(this.makeLeaf(this.ca ?? assert.fail("no signer"), bundle));
      assert.ok(left > 1 || writes < MANY, "it ends");
      if (!isBroken) assert.equal(this.#distrust(), undefined, `after ${write}`);
    }
    if (isBroken && this.isReadable && writes === MANY) {
      this.#bundles = this.#bundles.slice(-1);
      assert.equal(this.#distrust(), undefined, "2 s after an event");
      const { notAfter } = this.leaf ?? assert.fail("no leaf");
      const isDisputed = this.now < notAfter !== this.#wall < notAfter;
      assert.ok(isDisputed || !this.#needsLeaf(), "a starting replica has a leaf that is trusted");
    }
  }

  /** Time passes, and the leader works again and again. */
  pass(ms: number): void {
    for (let left = ms; left > 0; ) {
      this.work();
      const step = Math.min(left, ms > DAY ? 3 * HOUR : MINUTE);
      this.now += step;
      left -= step;
    }
    this.work();
  }
}

type Act = readonly [what: string, run: (world: World) => void];

const events: readonly Act[] = [
  ["CA deleted", (world) => world.storeCa(undefined)],
  ["leaf deleted", (world) => world.storeLeaf(undefined)],
  [
    "both deleted",
    (world) => {
      world.storeCa(undefined);
      world.storeLeaf(undefined);
    },
  ],
  ["bundle wiped", (world) => world.storeEntries(world.entries?.map(() => ""))],
  ["first entry wiped", (world) => world.storeEntries(world.entries && ["", ...world.entries.slice(1)])],
  ["last entry wiped", (world) => world.storeEntries(world.entries && [...world.entries.slice(0, 1), ""])],
  ["configuration deleted", (world) => world.storeEntries(undefined)],
  ["configuration applied", (world) => world.storeEntries(world.entries ?? ["", ""])],
  ["API server away", (world) => world.setReadable(false)],
  ["API server back", (world) => world.setReadable(true)],
  ["new names", (world) => world.rename()],
  ["CA due", (world) => world.pass(Math.max(0, (world.ca ? renewAt(world.ca) : 0) - world.now - world.skew))],
  ["leader changed", (world) => world.newLeader()],
  ["leader away", (world) => world.newLeader(5 * DAY)],
  ["clock ahead", (world) => world.setClock(DAY)],
  ["clock back", (world) => world.setClock(-DAY)],
  ["clock right", (world) => world.setClock(0)],
  // Another manager issues a leaf. Its CA arrives later, alone, or beside the others (cert-manager from 1.19).
  ["foreign leaf", (world) => world.storeForeign()],
  ["foreign leaf and bundle", (world) => world.storeForeign(() => "")],
  ["leaf of an unknown CA", (world) => world.storeLeaf(world.makeLeaf(world.make(CA_DAYS), ""))],
  ["foreign leaf, CA added", (world) => world.storeForeign((text) => text)],
];
const event = fc.oneof(
  { weight: 20, arbitrary: fc.constantFrom(...events) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.constantFrom("ca" as const, "leaf" as const, "bundle" as const), fc.nat(30))
      .map(([what, pick]): Act => [`restored ${what} ${pick}`, (world) => world.restore(what, pick)]),
  },
);
const step = fc.oneof(
  { weight: 5, arbitrary: event.map(([what, run]): Act => [what, (world) => [run(world), world.work()]]) },
  // The leader crashes before it sees the event, or after some writes.
  {
    weight: 2,
    arbitrary: fc
      .tuple(event, fc.nat(2))
      .map(
        ([[what, run], writes]): Act => [
          `${what}, ${writes} writes`,
          (world) => [run(world), world.work(writes), world.newLeader()],
        ],
      ),
  },
  {
    weight: 5,
    arbitrary: fc
      .constantFrom(2 * SECOND, MINUTE, 9 * MINUTE, OVERLAP, HOUR, 5 * DAY, 40 * DAY)
      .map((ms): Act => [`${ms / SECOND} s pass`, (world) => world.pass(ms)]),
  },
);
test("whatever happens, every leaf that is served is trusted by every bundle in use, and it comes to rest", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const world = new World();
      world.work();
      for (const [, run] of steps) run(world);
      world.setReadable(true);
      world.storeEntries(world.entries ?? ["", ""]);
      world.pass(3 * OVERLAP);
      const { ca, leaf, entries } = world;
      assert.equal(world.decision().reason.code, "steady");
      assert.ok(ca && leaf && leaf.signedBy === ca.id && entries && world.accepts(entries, leaf));
      assert.deepEqual(new Set(entries), new Set([ca.pem]), "no other CA is trusted");
      world.newLeader();
      world.work();
      assert.deepEqual([world.leaf, world.entries], [leaf, entries], "a new leader changes nothing");
      const daysLeft = [ca, leaf].map(({ notAfter }) => (notAfter - world.now - world.skew) / DAY);
      assert.ok(daysLeft[0]! > CA_DAYS / 3 && daysLeft[1]! > LEAF_DAYS / 3, `renewed in time: ${daysLeft}`);
    }),
    { numRuns: Number(process.env.RUNS ?? 600) },
  );
});

for (const [when, halves] of [
  ["before a rotation", 0],
  ["in the first half of a rotation", 1],
  ["in the second half of a rotation", 2],
] as const) {
  test(`the CA is lost four times within an overlap, ${when}: also a late replica's leaf stays trusted`, () => {
    const world = new World(true);
    world.pass(20 * DAY - MINUTE);
    for (let half = 0; half < halves; half += 1) world.pass(OVERLAP - MINUTE);
    for (let time = 0; time < 4; time += 1) {
      world.storeCa(undefined);
      world.pass(MINUTE);
    }
    assert.equal(world.decision().reason.code, "switching");
  });
}
