import assert from "node:assert/strict";
import { before, test } from "node:test";
import { silentLogger } from "#lib/telemetry/log.ts";
import { pooledKey } from "#test/fakes/keys.ts";
import { createMemoryBundle, createMemorySecretStore, type MemoryBundle } from "#test/fakes/memory-certs.ts";
import { fc } from "#test/property.ts";
import type { BundleView } from "./ca-bundle.ts";
import { issueAuthority, issueLeaf, servingNames } from "./issue.ts";
import { type Certificate, chainsTo, type PemPair, parseCertificates, readableAuthorities } from "./pem.ts";
import { runTurn } from "./reconcile.ts";
import { type SecretStore, TLS_SECRET } from "./secret-store.ts";

/**
 * Switchback and cert-manager maintain certificate and caBundle in turn. The change may come at any moment, even
 * while Switchback's leader still works. API servers and replicas are late, each by up to the overlap. Switchback's
 * last write must match everything that may be in use. Its bundle verifies every leaf that a replica may serve. Its
 * leaf verifies against every bundle that an API server may have.
 */
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const OVERLAP = 10 * MINUTE;
const START = Date.UTC(2026, 0, 1);
const NAMES = servingNames("switchback-webhook", "switchback-system", "cluster.local");
const never = new AbortController().signal;

interface Leaf {
  readonly at: number;
  readonly isOurs: boolean;
  readonly chain: readonly Certificate[];
}

interface Bundle {
  readonly at: number;
  readonly isOurs: boolean;
  readonly authorities: readonly Certificate[];
  /** What a writer could know: the current leaf when the bundle was written, and the bundle that it replaced. */
  readonly known: { readonly leaf: Leaf | undefined; readonly bundle: readonly Certificate[] };
}

/** What cert-manager would write: two CAs with two leaves each. */
const foreign: { ca: string; leaf: PemPair }[] = [];

before(async () => {
  for (let at = 0; at < 2; at += 1) {
    const ca = await issueAuthority({ now: START, days: 3650 }, pooledKey);
    for (let n = 0; n < 2; n += 1) {
      const leaf = await issueLeaf(ca, NAMES, { now: START, days: 3600 }, pooledKey);
      foreign.push({ ca: ca.cert, leaf });
    }
  }
});

const verifies = (leaf: Leaf, authorities: readonly Certificate[]) =>
  authorities.some((authority) => chainsTo(leaf.chain, authority));

/** An entry may be in use until the overlap after the next one. */
function inUse<T extends { readonly at: number }>(history: readonly T[], now: number): T[] {
  return history.filter((_, index) => (history[index + 1]?.at ?? Number.POSITIVE_INFINITY) > now - OVERLAP);
}

class World {
  now = START;
  store = createMemorySecretStore();
  leaves: Leaf[] = [];
  bundles: Bundle[] = [];
  readonly #live: MemoryBundle = createMemoryBundle([{ name: "namespace.switchback.dev", bundle: "" }]);

  /** A leader's turn that crashes at the write with this number. */
  async work(writes: number): Promise<string> {
    let left = writes;
    const count = () => {
      if (left === 0) throw new Error("crash");
      left -= 1;
    };
    const store: SecretStore = {
      ...this.store,
      write: async (name, data, expected) => {
        count();
        await this.store.write(name, data, expected);
        if (name === TLS_SECRET) this.#offered(data["tls.crt"] ?? "", true);
        this.check();
      },
    };
    const bundleWriter = {
      ...this.#live,
      write: async (bundle: string, view: BundleView) => {
        count();
        await this.#live.write(bundle, view);
        this.#published(bundle, true);
        this.check();
      },
    };
    const context = { store, bundleWriter, names: NAMES, caDays: 300, leafDays: 30, overlapMs: OVERLAP };
    const rest = { now: () => this.now, makeKey: pooledKey, log: silentLogger };
    return await runTurn({ ...context, ...rest }, never).then(
      ({ reason }) => reason.code,
      (error: Error) => {
        assert.equal(error.message, "crash", error.stack ?? "");
        return error.message;
      },
    );
  }

  /** cert-manager issues a leaf. */
  async issue(index: number): Promise<void> {
    const { ca, leaf } = foreign[index]!;
    const data = { "tls.crt": leaf.cert, "tls.key": leaf.key, "ca.crt": ca };
    await this.store.write(TLS_SECRET, data, await this.store.read(TLS_SECRET));
    this.#offered(leaf.cert, false);
    this.check();
  }

  /** cert-manager's cainjector follows, at once or later, and again after each write by Switchback. */
  async injectCa(): Promise<void> {
    const ca = (await this.store.read(TLS_SECRET))?.data["ca.crt"] ?? "";
    this.#live.set([{ name: "namespace.switchback.dev", bundle: ca }]);
    this.#published(ca, false);
    this.check();
  }

  pass(ms: number): void {
    this.now += ms;
    this.check();
  }

  #offered(cert: string, isOurs: boolean): void {
    // After an outage, every leaf that could be served has expired. Then only the live objects matter.
    if (isOurs && !this.#served().length) this.bundles.splice(0, this.bundles.length - 1);
    this.leaves.push({ at: this.now, isOurs, chain: parseCertificates(cert) });
  }

  #published(text: string, isOurs: boolean): void {
    const known = { leaf: this.leaves.at(-1), bundle: this.bundles.at(-1)?.authorities ?? [] };
    this.bundles.push({ at: this.now, isOurs, authorities: readableAuthorities(text), known });
  }

  /** The leaves that a replica may serve and that have not expired. */
  #served(): Leaf[] {
    return inUse(this.leaves, this.now).filter(({ chain: [leaf] }) => leaf !== undefined && this.now < leaf.notAfter);
  }

  check(): void {
    for (const leaf of this.#served()) {
      for (const bundle of inUse(this.bundles, this.now)) {
        if (!isOurCare(leaf, bundle)) continue;
        const day = (this.now - START) / DAY;
        assert.ok(verifies(leaf, bundle.authorities), `day ${day}: the leaf of ${leaf.at}, the bundle of ${bundle.at}`);
      }
    }
  }
}

/** The last writer must match what is in use, as far as it can know that. */
function isOurCare(leaf: Leaf, bundle: Bundle): boolean {
  if (leaf.at > bundle.at) return leaf.isOurs;
  if (!bundle.isOurs) return false;
  return leaf.isOurs || leaf === bundle.known.leaf || verifies(leaf, bundle.known.bundle);
}

/** A late cainjector in the middle of a rotation writes the CAs that came with the leaf. These lack the next one. */
const PUT_BACK: readonly ((world: World) => Promise<void> | void)[] = [
  (world) => world.pass(201 * DAY),
  async (world) => void (await world.work(99)),
  (world) => world.injectCa(),
  (world) => world.pass(10 * DAY),
];

const act = fc.oneof(
  { weight: 4, arbitrary: fc.nat(4).map((writes) => async (world: World) => void (await world.work(writes))) },
  { weight: 4, arbitrary: fc.constant(async (world: World) => void (await world.work(99))) },
  {
    weight: 5,
    arbitrary: fc
      .constantFrom(1_000, MINUTE, 9 * MINUTE, OVERLAP, 10 * DAY, 201 * DAY)
      .map((ms) => async (world: World) => world.pass(ms)),
  },
  {
    weight: 4,
    arbitrary: fc.nat(3).map((index) => async (world: World) => {
      await world.issue(index);
      await world.injectCa();
    }),
  },
  { weight: 2, arbitrary: fc.nat(3).map((index) => (world: World) => world.issue(index)) },
  { weight: 2, arbitrary: fc.constant((world: World) => world.injectCa()) },
);

test("repeated mode changes at any moment: every served leaf is trusted, in the end by Switchback's CA", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(act, { maxLength: 16 }), async (acts) => {
      const world = new World();
      await world.work(99);
      for (const step of acts) await step(world);
      for (let turns = 0; turns < 5; turns += 1) {
        await world.work(99);
        world.pass(OVERLAP);
      }
      assert.equal(await world.work(99), "steady");
      const leaf = world.leaves.at(-1)!;
      const bundle = world.bundles.at(-1)!;
      assert.ok(leaf.isOurs && verifies(leaf, bundle.authorities));
      assert.ok(
        !foreign.some(({ ca }) => bundle.authorities.some(({ pem }) => pem === ca)),
        "no other manager's CA stays trusted",
      );
    }),
    { numRuns: 20, endOnFailure: true, examples: [[[...PUT_BACK]]] },
  );
});
