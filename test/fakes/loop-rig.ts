import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { MapReconciler } from "#controller/map-reconciler.ts";
import { type PaceRules, PublishPacer } from "#controller/publish-pacer.ts";
import type { ClaimSink } from "#controller/sources/types.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { RemovalRules } from "#hostmap/removal-guard.ts";
import type { TargetAddress } from "#hostmap/types.ts";
import { parseIndex } from "#lib/documents/map-format.ts";
import type { PublishedState } from "#lib/documents/map-store.ts";
import { MemoryMapStore } from "#lib/documents/map-store-memory.ts";
import type { Publication } from "#lib/documents/map-writer.ts";
import { claimOf } from "../arbitraries.ts";

/** A store whose writes are counted, and can fail or be interrupted. */
export class TestStore extends MemoryMapStore {
  readonly writes: string[] = [];
  /** Called before each write; what it throws is the API server's answer. */
  onWrite: (name: string) => void = () => {};
  isSynced = true;
  #indexGone = false;

  override get synced(): boolean {
    return this.isSynced;
  }

  override index(): string | undefined {
    return this.#indexGone ? undefined : super.index();
  }

  override state(): PublishedState | undefined {
    return this.#indexGone ? undefined : super.state();
  }

  override async writeShard(name: string, text: string): Promise<void> {
    this.#write(name);
    await super.writeShard(name, text);
  }

  override async writeIndex(text: string): Promise<void> {
    this.#write("index");
    this.#indexGone = false;
    await super.writeIndex(text);
  }

  override async writeState(text: string, hold: string | undefined): Promise<void> {
    this.#write("state");
    await super.writeState(text, hold);
  }

  override async removeShard(name: string): Promise<void> {
    this.#write(`remove ${name}`);
    await super.removeShard(name);
  }

  /** The names of the shards that make up the map. */
  named(): string[] {
    const index = parseIndex(this.index() ?? "");
    return "code" in index ? [] : index.shards.map(({ name }) => name);
  }

  /** Somebody edits a shard, deletes it, or deletes the index and the state. */
  async edit(name: string, text: string | undefined): Promise<void> {
    if (text === undefined) await super.removeShard(name);
    else await super.writeShard(name, text);
  }

  async loseIndex(): Promise<void> {
    this.#indexGone = true;
    await super.removeShard("none of ours");
  }

  #write(name: string): void {
    this.onWrite(name);
    this.writes.push(name);
  }
}

/** What the store maps, as a webhook would read it; a text if it would not. */
export function published(store: TestStore): Record<string, string> | string {
  if (store.index() === undefined) return "no index";
  const map = store.read();
  if ("code" in map) return map.code;
  return Object.fromEntries(map.names.map((name) => [name, (map.addressesOf(name) ?? []).join()]));
}

export const IP = "198.51.100.9";
/** Of a term that does not end. */
export const TERM: AbortSignal = new AbortController().signal;
const START = 1_700_000_000_000;

/** A source in the test's hands. */
class TestSource {
  sink: ClaimSink = () => {};
  sync: () => void = () => {};

  start(sink: ClaimSink, onSynced: () => void): void {
    this.sink = sink;
    this.sync = onSynced;
  }

  state() {
    return [];
  }

  async stop(): Promise<void> {}

  /** An object claims these names and no other. */
  set(object: string, ...hostnames: readonly string[]): void {
    this.sink(
      object,
      hostnames.map((hostname) => claimOf(hostname, object)),
    );
  }
}

/** Addresses in the test's hands. */
class TestAddresses {
  list: readonly TargetAddress[] = [{ name: "ingress-nginx", clusterIPs: [IP] }];
  synced = true;
  remembered: readonly TargetAddress[] | undefined;
  /** What was told to be in use, without repetitions. */
  readonly used: string[] = [];
  #onChange = () => {};

  start(onChange: () => void): void {
    this.#onChange = onChange;
  }

  targets(): readonly TargetAddress[] {
    return this.list;
  }

  use(names: ReadonlySet<string>): void {
    const told = [...names].sort().join();
    if (this.used.at(-1) !== told) this.used.push(told);
  }

  lead(remembered: readonly TargetAddress[]): void {
    this.remembered = remembered;
  }

  async stop(): Promise<void> {}

  move(...clusterIPs: readonly string[]): void {
    this.list = [{ name: "ingress-nginx", clusterIPs }];
    this.#onChange();
  }
}

/** Puts the test's clock in place of the real one; gives how to let time pass, in steps of `stepMs`. */
export function stopClock(t: TestContext): (ms: number, stepMs?: number) => Promise<void> {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: START });
  return async (ms, stepMs = 10) => {
    for (let passed = 0; passed < ms; passed += stepMs) {
      t.mock.timers.tick(Math.min(stepMs, ms - passed));
      // Lets the promises that a timer has set going come to rest.
      await new Promise(setImmediate);
    }
  };
}

/** The rules of a rig's loop, where they are not the default ones. */
interface RigRules {
  readonly removal?: Partial<RemovalRules>;
  readonly pace?: Partial<PaceRules>;
}

/** A loop on a source, addresses and a store that the test holds; several loops can share one store. */
export function loopRig(store = new TestStore(), { removal, pace }: RigRules = {}) {
  const source = new TestSource();
  const addresses = new TestAddresses();
  const plan = new Plan(
    createClaimPolicy(
      { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 5_000 },
      undefined,
    ),
    5_000,
  );
  const publications: Array<Publication & { readonly at: number; readonly lagMs: number }> = [];
  const failures: unknown[] = [];
  const holds: Array<readonly [names: number, of: number, until: number]> = [];
  const logged: string[] = [];
  const log = (fields: object) => logged.push("code" in fields ? String(fields.code) : "");
  const loop = new MapReconciler({
    source,
    plan,
    addresses,
    store,
    removal: { vanishMs: 60_000, guardNames: 10, holdMs: 300_000, ...removal },
    pacer: new PublishPacer({ publicationsPerSecond: 2, bytesPerSecond: 200_000, ...pace }),
    now: () => Date.now(),
    log: { debug: log, info: log, warn: log, error: log },
    onPublished: (publication, lagMs) => publications.push({ ...publication, at: Date.now() - START, lagMs }),
    onFailed: (error) => failures.push(error),
    onHeld: (names, of, until) => holds.push([names, of, until - START]),
  });
  const leadership = new AbortController();
  return { loop, source, addresses, plan, store, publications, failures, holds, logged, leadership };
}

/** `n0.example.com`, `n1.example.com`, ... */
export function names(count: number, from = 0): string[] {
  return Array.from({ length: count }, (_, index) => `n${from + index}.example.com`);
}

/** What `published` gives when exactly these names are mapped. */
export function mapped(hostnames: readonly string[], ip = IP): Record<string, string> {
  return Object.fromEntries([...hostnames].sort().map((name) => [name, ip]));
}

/** A leader with these names published, a second after its first publication. */
export async function leader(t: TestContext, hostnames: readonly string[], store = new TestStore()) {
  const pass = stopClock(t);
  const rig = loopRig(store);
  rig.loop.start();
  for (const name of hostnames) rig.source.set(`shop/${name}`, name);
  rig.source.sync();
  rig.loop.lead(rig.leadership.signal);
  await pass(1_000);
  assert.deepEqual(published(store), mapped(hostnames));
  rig.publications.length = 0;
  store.writes.length = 0;
  return { ...rig, pass };
}
