import { isIP } from "node:net";
import type { TestContext } from "node:test";
import type { DnsLookup } from "#controller/dnscheck/lookup.ts";
import { type DnsAnswers, DnsSweep } from "#controller/dnscheck/sweep.ts";
import { Pipeline } from "#controller/pipeline.ts";
import type { RoutingHints, View, ViewSink } from "#controller/sources/types.ts";
import type { Holding } from "#controller/targets/match-service.ts";
import type { TargetLocations } from "#controller/targets/target-table.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { LineLog } from "./clock.ts";
import { mockSteadyTime, turns } from "./stopped-time.ts";

/** What is known about targets. A test may change it at any time. */
interface Addresses {
  /** The addresses of each target's load balancer, by target. */
  targets?: Record<string, readonly string[]>;
  /** The `externalIPs` of each target's Service. */
  external?: Record<string, readonly string[]>;
  own?: string[];
  /** Targets whose Service has `switchback.dev/map: always`. */
  always?: string[];
  /** The warning about a target, by target. */
  warnings?: Record<string, Reason>;
  /** What the ingress controllers' answers say against a target, by target. */
  against?: Record<string, Reason>;
}

interface Setting {
  readonly mode?: "auto" | "warn" | "enforce";
  readonly addresses?: Addresses;
  readonly known?: DnsAnswers;
  readonly quota?: number;
  readonly clusterDomain?: string;
  /** The records of the start. */
  readonly before?: Readonly<Record<string, readonly string[] | Error>>;
  /** Whether DNS is asked. Default: yes. */
  readonly asksDns?: boolean;
  /** By name that is published, with the holder `shop`: its target. A test may change it at any time. */
  readonly published?: Readonly<Record<string, string>>;
}

const PROBLEM = { place: "objects", code: "forbidden", text: "the API server refuses it" };
/** The reason for a class without a target. */
export const NO_SERVICE: Reason = { code: "no-service", text: "no Service has its address" };

function locationsOf(addresses: Addresses): TargetLocations {
  return {
    has: (target) => target !== "gone",
    addressesOf: (target) => [...(addresses.targets?.[target] ?? []), ...(addresses.external?.[target] ?? [])],
    externalIPsOf: (target) => addresses.external?.[target] ?? [],
    targetAt: (address) => Object.entries(addresses.targets ?? {}).find(([, all]) => all.includes(address))?.[0],
    mapsAlways: (target) => addresses.always?.includes(target) ?? false,
    warningOf: (target) => addresses.warnings?.[target],
  };
}

/**
 * A pipeline whose source, Services, DNS and clock the test controls. The class of an object is the name of its target.
 * A class of `answers` has that answer.
 */
export function pipelineRig(t: TestContext, setting: Setting = {}) {
  const { mode = "auto", addresses = {}, known, quota = 1_000, clusterDomain, before = {}, asksDns = true } = setting;
  const { published = {} } = setting;
  t.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const state = { now: 1_000, slow: undefined as string | undefined, open: 0, most: 0, fails: false, lists: false };
  mockSteadyTime(t, () => state.now);
  const records = new Map<string, readonly string[] | Error>(Object.entries(before));
  const asked: string[] = [];
  const lookup: DnsLookup = async (name, family) => {
    const all = records.get(`${name}/${family}`) ?? records.get(name) ?? [];
    if (family === 4) {
      asked.push(name);
      state.open += 1;
      state.most = Math.max(state.most, state.open);
    }
    await new Promise((resolve) => setImmediate(resolve));
    const isSlow = () => state.slow !== undefined && name.startsWith(state.slow);
    while (isSlow() && !name.endsWith(`svc.${clusterDomain}`)) await new Promise((resolve) => setImmediate(resolve));
    if (family === 4) state.open -= 1;
    if (all instanceof Error) throw all;
    return all.filter((address) => isIP(address) === family).slice(0, 16);
  };
  const log = new LineLog();
  const locations = locationsOf(addresses);
  const now = () => state.now;
  const ownAddresses = () => new Set(addresses.own);
  const answers = new Map<string, string | (Reason & { readonly byClass?: string | undefined })>();
  const resolved: RoutingHints[] = [];
  const rules = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: quota };
  const plan: Plan = new Plan(createClaimPolicy(rules, undefined), quota);
  plan.setPublished((name) => {
    const target = published[name];
    return !target ? undefined : { name, addresses: ["10.96.0.9"], order: 0, holder: "shop", target };
  });
  const dns = new DnsSweep({ lookup, locations, ownAddresses, plan, clusterDomain, mode, known, now, log });
  const listed: Parameters<ViewSink>[] = [];
  let see: ViewSink = (...seen) => listed.push(seen);
  const nothing = () => {};
  let isSourceSynced = false;
  let [sourceSynced, servicesChanged, headersChanged, resolverSynced] = [nothing, nothing, nothing, nothing];
  const stopped: string[] = [];
  const find = (hints: RoutingHints, { held, isOfNamespace }: Holding) => {
    resolved.push(hints);
    const answer = answers.get(hints.className ?? "");
    const isKnown = hints.className === "ambiguous" && isOfNamespace?.("edge");
    const target = isKnown ? "edge" : (answer ?? hints.className ?? NO_SERVICE);
    const warned = (name: string) => ({ ...(addresses.warnings?.[name] && { warning: addresses.warnings[name] }) });
    if (typeof target === "string") return { target, ...warned(target) };
    const lacking = typeof answer === "object" && "byClass" in answer ? { byClass: answer.byClass } : undefined;
    const isKept = target.code === NO_SERVICE.code && held !== undefined && held in (addresses.targets ?? {});
    if (!isKept) return { target, ...(lacking && { lacking }) };
    const undecided = { target, undecided: true, maybe: held } as const;
    return { ...undecided, lacking: lacking ?? { byClass: undefined }, ...warned(held) };
  };
  const resolver = {
    start(onChange: () => void, onSynced: () => void) {
      [servicesChanged, resolverSynced] = [onChange, onSynced];
    },
    state: () => [{ name: "services", synced: true, problems: [] }],
    stop: async () => void stopped.push("resolver"),
  };
  const source = {
    start(sink: ViewSink, onSynced: () => void) {
      [see, sourceSynced] = [sink, onSynced];
      for (const seen of listed) sink(...seen);
      if (isSourceSynced) onSynced();
    },
    state: () => [
      { name: "objects", synced: isSourceSynced, problems: state.fails ? [PROBLEM] : [] },
      { name: "others", synced: isSourceSynced || !state.lists, problems: [] },
    ],
    stop: async () => void stopped.push("source"),
  };
  const headers = {
    against: (target: string) => addresses.against?.[target],
    want() {},
    follow(onChange: () => void) {
      headersChanged = onChange;
    },
  };
  const claims = new Map<string, readonly Claim[]>();
  const reported: string[] = [];
  const set = plan.set.bind(plan);
  plan.set = (place, all) => {
    const object = place.replace(/^0\//, "");
    reported.push(object);
    claims.set(object, all as readonly Claim[]);
    set(object, all);
  };
  const namespaces = { start: (onSynced: () => void) => onSynced(), state: () => [], stop: async () => {} };
  const pipeline = new Pipeline({
    ...{ sources: [source], namespaces, resolver, find, locations, mode, headers, log, plan },
    dns: asksDns ? dns : undefined,
  });
  const loop = new Reconciler({ reconcile: async () => ({ requeueAfter: await pipeline.decide() }) });
  pipeline.start(() => loop.enqueue());
  t.after(async () => {
    state.slow = undefined;
    await Promise.all([loop.stop(), pipeline.stop()]);
  });
  const pass = async (ms: number, stepMs = 50) => {
    for (let passed = 0; passed < ms; passed += stepMs) {
      state.now += stepMs;
      t.mock.timers.tick(stepMs);
      await turns(6);
      plan.takeChanges();
    }
  };
  return {
    ...{
      addresses,
      answers,
      asked,
      claims,
      dns,
      log,
      pass,
      pipeline,
      plan,
      records,
      reported,
      resolved,
      state,
      stopped,
    },
    see: (object: string, views: readonly View[]) => see(object, views),
    /** An object of the class, with these names. */
    set: (
      object: string,
      className = "edge",
      names: readonly string[] = ["shop.example.com"],
      more: Partial<View> = {},
    ) =>
      see(
        object,
        names.map((name) => viewOf(name, className, more)),
      ),
    sourceSynced: () => {
      isSourceSynced = true;
      sourceSynced();
    },
    resolverSynced: () => resolverSynced(),
    servicesChanged: () => servicesChanged(),
    headersChanged: () => headersChanged(),
    /** Everything is listed. */
    sync: async () => {
      isSourceSynced = true;
      sourceSynced();
      resolverSynced();
      await pass(100);
    },
    /** By claim: the target, with `!` if DNS leads there; or the reason, with `?` if it is not decided. */
    results: (object: string) =>
      (claims.get(object) ?? []).map(({ target, verified, undecided }) =>
        typeof target === "string" ? `${target}${verified ? "!" : ""}` : `${target.code}${undecided ? "?" : ""}`,
      ),
  };
}

export function viewOf(hostname: string, className: string | undefined, more: Partial<View> = {}): View {
  return {
    hostname,
    from: { kind: "Ingress", namespace: "shop", name: "web" },
    created: "2026-01-01T00:00:00Z",
    hints: { className, addresses: ["198.51.100.50"], admitted: true },
    ...more,
  };
}
