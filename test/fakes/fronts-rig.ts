import type { TestContext } from "node:test";
import { HeaderDecisions } from "#controller/expected-headers/header-decisions.ts";
import { FrontReconciler } from "#controller/front-reconciler.ts";
import type { Target } from "#controller/targets/target.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { OBJECTS, targetsIn } from "../published.ts";
import { LineLog } from "./clock.ts";
import { stopClock } from "./loop-rig.ts";
import { MemoryKube } from "./memory-kube.ts";
import { turns } from "./stopped-time.ts";

export const NAMESPACE = "/api/v1/namespaces/switchback-system";
export const DOCUMENT = `${NAMESPACE}/configmaps/${OBJECTS.targets}`;
export const SLICES = "/apis/discovery.k8s.io/v1/namespaces/switchback-system/endpointslices";
const HOUR_MS = 3_600_000;

/** A target, as discovery or the config provides it. */
export function target(name: string, more: Partial<TargetConfig> = {}): TargetConfig {
  const upstream = { service: { namespace: "infra", name } };
  return { name, upstream, classes: [name], ports: [{ port: 443, protocol: "v1" }], clusterIPs: [], ...more };
}

/** A target without a relay. */
export function direct(name: string, more: Partial<TargetConfig> = {}): TargetConfig {
  return target(name, { ports: [{ port: 443, protocol: "none" }], ...more });
}

/** A discovered target. */
export function discovered(definition: TargetConfig, upstreamIPs: readonly string[] = ["203.0.113.80"]): Target {
  return { ...definition, upstreamIPs };
}

/** The path of a target's front Service. */
export function frontPath(name: string): string {
  return `${NAMESPACE}/services/switchback-${name}`;
}

/** Found targets that the test controls. */
class TestCatalog {
  config: readonly Target[] = [];
  readonly discovers = true;
  readonly synced = true;
  readonly others = new Map<string, Target>();
  changed: () => void = () => {};

  configured(): readonly Target[] {
    return this.config;
  }

  found(name: string): Target | undefined {
    return this.others.get(name);
  }

  follow(onChange: () => void): void {
    this.changed = onChange;
  }

  mapsAlways(): boolean {
    return false;
  }
}

interface Setting {
  readonly configured?: readonly TargetConfig[];
  readonly found?: readonly TargetConfig[];
  readonly discovery?: object;
  /** Paths of lists that get no answer at first. */
  readonly silent?: readonly string[];
  /** Objects that exist before the start. */
  readonly objects?: Readonly<Record<string, object>>;
}

/** The fronts of a cluster in memory, started and synced, on a clock that moves only in `pass`. */
export async function frontsRig(t: TestContext, setting: Setting = {}) {
  const { configured = [], found = [], discovery = {}, silent = [], objects = {} } = setting;
  const pass = stopClock(t);
  const kube = new MemoryKube();
  const held = silent.map((path) => kube.hold(path));
  for (const [path, object] of Object.entries(objects)) kube.put(path, object);
  const catalog = new TestCatalog();
  catalog.config = configured;
  for (const each of found) catalog.others.set(each.name, discovered(each));
  const log = new LineLog();
  const notes: (readonly [code: string, note: string, service: string])[] = [];
  /** The targets for which each proxy says that it listens, by the proxy's address. */
  const bound = new Map<string, readonly string[]>();
  const state = { changes: 0 };
  const config = parseConfig({ discovery });
  const headers = new HeaderDecisions({ catalog, clusterDomain: "cluster.local", preferred: "v1" });
  const fronts = new FrontReconciler({
    client: kube.client,
    config: { ...config, targets: [...configured] },
    clusterDomain: "cluster.local",
    ...{ headers, log },
    notify: (...note) => void notes.push(note),
    askProxy: async (address) => ({ listening: bound.get(address) ?? [], answers: [] }),
  });
  fronts.start(() => {
    state.changes += 1;
  });
  await pass(200);
  const term = new AbortController();
  /** Answers the lists that got no answer at first. */
  const speak = () => {
    for (const answer of held) answer();
  };
  return { fronts, headers, kube, catalog, log, notes, bound, state, term, pass, speak };
}

export type FrontsRig = Awaited<ReturnType<typeof frontsRig>>;

/** Lets hours pass, one at a time. */
export async function passHours(t: TestContext, hours: number): Promise<void> {
  for (let hour = 0; hour < hours; hour += 1) {
    t.mock.timers.tick(HOUR_MS);
    await turns(3);
  }
}

/** The write of the targets' document, as `written` shows it. */
export const PUBLISHED = `APPLY ${OBJECTS.targets}`;

/** The targets that are published to the proxies. */
export function told({ kube }: Pick<FrontsRig, "kube">): readonly PublishedTarget[] {
  const object = kube.at(DOCUMENT);
  return object === undefined ? [] : targetsIn([object]).targets;
}

/** Returns the writes so far, each as `METHOD name`, and forgets them. */
export function written({ kube }: Pick<FrontsRig, "kube">): string[] {
  return kube.writes.splice(0).map(({ method, path }) => `${method} ${path.slice(path.lastIndexOf("/") + 1)}`);
}

/** Adds a proxy that is ready at `address`. */
export function proxyAt({ kube }: Pick<FrontsRig, "kube">, address: string): void {
  const metadata = { labels: { "kubernetes.io/service-name": "switchback-proxy" } };
  kube.put(`${SLICES}/slice`, { metadata, endpoints: [{ addresses: [address], conditions: { ready: true } }] });
}

/** Starts to lead while names lead to these targets, and waits until the resulting objects are written. */
export async function lead({ fronts, term, pass }: FrontsRig, ...names: readonly string[]): Promise<void> {
  fronts.use(new Set(names));
  fronts.lead(term.signal);
  await pass(100);
}
