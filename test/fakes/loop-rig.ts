import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { Loop } from "#controller/loop.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { shortHash } from "#hostmap/hash.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { HOLD_KEY, MAP_REVISION_KEY } from "#hostmap/metadata-keys.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Claim, TargetAddress } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import type { MapNotes, RenderedMap } from "#lib/documents/map-format.ts";
import type { MapWriter } from "#lib/documents/map-writer.ts";
import { claimOf } from "../arbitraries.ts";
import { MemoryMap } from "./memory-map.ts";
import { stopTime } from "./stopped-time.ts";

/** A map that counts its writes. Writes can fail or be interrupted. */
export class TestStore extends MemoryMap {
  /** The revisions that were written. */
  readonly writes: string[] = [];
  /** Called before each write. If it throws, the error is the API server's answer. */
  onWrite: () => void = () => {};
  isSynced = true;

  override get synced(): boolean {
    return this.isSynced;
  }

  override async write(map: RenderedMap, notes: MapNotes): Promise<void> {
    this.onWrite();
    this.writes.push(map.revision);
    await super.write(map, notes);
  }

  /** Simulates another client that writes this text, or deletes the map. */
  edit(hosts: string | undefined): void {
    const { metadata = { name: "switchback-map" } } = this.current ?? {};
    this.current = hosts === undefined ? undefined : { metadata, data: { hosts } };
  }

  /** The published hold, as JSON. */
  get hold(): string | undefined {
    return this.current?.metadata.annotations?.[HOLD_KEY];
  }
}

/** The map in the store, as a webhook reads it. If a webhook would not accept it, the reason as a text. */
export function published({ current }: TestStore): Record<string, string> | string {
  const text = current?.data?.hosts;
  if (text === undefined) return "no map";
  if (current?.metadata.annotations?.[MAP_REVISION_KEY] !== shortHash(text)) return "edited";
  return Object.fromEntries([...parseHosts(text)].sort().map(([name, addresses]) => [name, addresses.join()]));
}

export const IP = "198.51.100.9";
const START = 1_700_000_000_000;

/** Claims that the test controls. */
class TestSource {
  readonly #plan: Plan;
  #onDue: () => void = () => {};
  isRead = false;
  synced = false;

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  start(onDue: () => void): void {
    this.#onDue = onDue;
  }

  sink(object: string, claims: readonly Claim[]): void {
    this.#plan.set(object, claims);
    this.#onDue();
  }

  settled(): void {}

  async decide(): Promise<undefined> {}

  /** Everything has been read and decided. `synced: false`: what can be read. */
  sync(synced = true): void {
    this.isRead = true;
    this.synced = synced;
    this.#onDue();
  }

  state() {
    return [];
  }

  async stop(): Promise<void> {}

  /** Makes an object claim exactly these names. */
  set(object: string, ...hostnames: readonly string[]): void {
    this.sink(
      object,
      hostnames.map((hostname) => claimOf(hostname, object)),
    );
  }
}

/** Addresses that the test controls. */
class TestAddresses {
  readonly inactiveMs = 0;
  list: readonly TargetAddress[] = [{ name: "ingress-nginx", clusterIPs: [IP] }];
  synced = true;
  /** What an earlier leader published. */
  earlier: readonly TargetAddress[] = [];
  /** The sets of targets that were reported as used, without repetitions. */
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

  published(): readonly TargetAddress[] {
    return this.earlier;
  }

  asked(): ReadonlySet<string> {
    return new Set();
  }

  lead(): void {}

  async stop(): Promise<void> {}

  move(...clusterIPs: readonly string[]): void {
    this.list = [{ name: "ingress-nginx", clusterIPs }];
    this.#onChange();
  }
}

/** Stops time. Each step of the loop settles within one turn. */
export const stopClock = (t: TestContext) => stopTime(t, 10, 1);

/** A loop whose source, addresses and store the test controls. Several loops can share one store. */
export function loopRig<S extends MapWriter = TestStore>(
  store: S | TestStore = new TestStore(),
  rules: Partial<Config["map"]> = {},
  readers = () => 0,
) {
  const addresses = new TestAddresses();
  if (store.current !== undefined) addresses.earlier = addresses.list;
  const plan = new Plan(
    createClaimPolicy(
      { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 5_000 },
      undefined,
    ),
    5_000,
  );
  const source = new TestSource(plan);
  const publications: { readonly bytes: number; readonly at: number; readonly lagMs: number }[] = [];
  const seen = { failures: 0 };
  const logged: string[] = [];
  const texts: string[] = [];
  const log = (fields: object, text: string) => {
    if ("code" in fields) logged.push(String(fields.code));
    texts.push(text);
  };
  const loop = new Loop({
    source,
    plan,
    addresses,
    store,
    rules: { ...parseConfig({}).map, ...rules },
    readers,
    now: () => Date.now(),
    log: { debug: log, info: log, warn: log, error: log },
    metrics: {
      published: (bytes, lagMs) => publications.push({ bytes, at: Date.now() - START, lagMs }),
      failed: () => {
        seen.failures += 1;
      },
    },
  });
  const leadership = new AbortController();
  return { loop, source, addresses, plan, store: store as S, publications, seen, logged, texts, leadership };
}

/** Returns `n0.example.com`, `n1.example.com`, ... */
export function names(count: number, from = 0): string[] {
  return Array.from({ length: count }, (_, index) => `n${from + index}.example.com`);
}

/** The result of `published` if exactly these names are mapped. */
export function mapped(hostnames: readonly string[], ip = IP): Record<string, string> {
  return Object.fromEntries([...hostnames].sort().map((name) => [name, ip]));
}

/** A leader that has published these names, one second after its first publication. */
export async function leader(t: TestContext, hostnames: readonly string[], store = new TestStore()) {
  const pass = stopClock(t);
  const rig = loopRig(store);
  rig.loop.start(rig.leadership.signal);
  for (const name of hostnames) rig.source.set(`shop/${name}`, name);
  rig.source.sync();
  await pass(1_000);
  assert.deepEqual(published(store), mapped(hostnames));
  rig.publications.length = 0;
  store.writes.length = 0;
  return { ...rig, pass };
}
