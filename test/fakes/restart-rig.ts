import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { rolloutStatus } from "#controller/rollout/report.ts";
import { Restarter } from "#controller/rollout/restarter.ts";
import type { RestarterDeps } from "#controller/rollout/workload.ts";
import { planInjection } from "#hostmap/inject.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { kubeMapReader, type MapReader } from "#lib/documents/map-reader.ts";
import { isMap, publishedMapOf } from "#lib/documents/published-map.ts";
import type { EventRecord } from "#lib/kube/events.ts";
import { mapObjects, OBJECTS, publishedIn } from "../published.ts";
import { LineLog } from "./clock.ts";
import { MemoryKube } from "./memory-kube.ts";
import { mergePatch } from "./memory-objects.ts";

/** Start time of the tests, in milliseconds since 1970. */
/** A leader that cannot read the map yet is not waited for. */
const READING_TURNS = 3_000;
export const RIG_START = Date.parse("2026-01-01T00:00:00Z");
const CONFIG = "/api/v1/namespaces/switchback-system/configmaps";
const IP = "198.51.100.9";
export const STAMP = "switchback.dev/restartedAt";
export const RECORD = "switchback.dev/restarts";
const OPTED_IN = { metadata: { labels: { "switchback.dev/inject": "enabled" } } };

export const HOUR_MS = 3_600_000;
/** Two maps of one namespace, as `publish` takes them. */
export const FIRST = { "first.example.com": "shop" };
export const SECOND = { ...FIRST, "second.example.com": "shop" };

export const deploymentPath = (name: string, namespace = "shop") =>
  `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`;
export const podsPath = (namespace = "shop") => `/api/v1/namespaces/${namespace}/pods`;

export const WEB = deploymentPath("web");

interface Deployment {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: {
    readonly replicas: number;
    readonly template: { readonly metadata: { readonly annotations: Readonly<Record<string, string>> } };
  };
}

/**
 * The leader's work on running pods, against an API server in memory, with a Deployment controller and a webhook.
 * Timers and clocks are mocked, so that time passes only in `pass`. The cluster has the namespace `shop`, which opted
 * in and is listed.
 */
export function restartRig(
  t: TestContext,
  restart: Readonly<Record<string, unknown>> = {},
  more: Partial<Pick<RestarterDeps, "observeAgents">> & object = {},
) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: RIG_START });
  const { observeAgents, ...settings } = more;
  const api = new MemoryKube();
  const log = new LineLog();
  const events: EventRecord[] = [];
  const counted: string[] = [];
  const count = (what: string) => ({ inc: () => void counted.push(what) });
  const counters: RestarterDeps["counters"] = { restarted: count("restarted"), failed: count("failed") };
  const config = parseConfig({ restart: { namespaces: ["shop"], ...restart }, ...settings });
  /** What happens in the cluster. `skewMs`: how far the leaders' wall clock is ahead. */
  const world = {
    hosts: new Map<string, readonly string[]>(),
    skewMs: 0,
    /** Whether new pods get the names. */
    injects: true,
    /** Whether a rollout can create pods. */
    hasRoom: true,
    /** Deployments whose new pods never become available. */
    broken: new Set<string>(),
    startMs: 0,
    /** When the restarts were sent, with the workload's name. */
    restarts: [] as { readonly name: string; readonly at: number }[],
  };
  api.put("/api/v1/namespaces/shop", OPTED_IN);
  api.put("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook", {});
  api.put(`${CONFIG}/${OBJECTS.reachable}`, {});

  const podOf = (name: string, of: string, annotations: Readonly<Record<string, string>>, isInjected: boolean) => {
    const selected = createSelector(publishedMapOf("r", world.hosts), 500)(annotations["switchback.dev/hosts"]);
    const { managed } = planInjection([], annotations, selected);
    const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: `${of}-1`, uid: "rs", controller: true };
    return {
      metadata: {
        creationTimestamp: new Date().toISOString(),
        labels: { "pod-template-hash": "1", ...(isInjected && { "switchback.dev/injected": "true" }) },
        annotations: { ...annotations, ...(isInjected ? managed.annotations : {}) },
        ownerReferences: [owner],
      },
      spec: { nodeName: "node-1", hostAliases: isInjected ? managed.aliases : [] },
      name,
    };
  };

  /** Sets what the Deployment controller reports. */
  const report = (path: string, isUnsettled: boolean, isFailed = false) => {
    const object = api.at(path);
    const { replicas } = (object as unknown as Deployment).spec;
    const available = isUnsettled ? 0 : replicas;
    const conditions = isFailed ? [{ type: "Progressing", status: "False" }] : [];
    const observedGeneration = object?.metadata.generation ?? 1;
    const status = {
      observedGeneration,
      replicas,
      updatedReplicas: replicas,
      availableReplicas: available,
      conditions,
    };
    api.put(path, { ...object, status });
  };

  const begun = new Map<string, { readonly stamp: string | undefined; readonly at: number }>();
  /** Does the work of the Deployment controller and of the kubelet. */
  const rollOut = () => {
    for (const path of api.paths("/apis/apps/v1/deployments")) {
      const { spec } = api.at(path) as unknown as Deployment;
      const { annotations } = spec.template.metadata;
      const [namespace = "", , name = ""] = path.split("/").slice(5);
      const known = begun.get(path);
      if (known === undefined || known.stamp !== annotations[STAMP]) {
        begun.set(path, { stamp: annotations[STAMP], at: Date.now() });
        if (known !== undefined) report(path, true);
        if (known !== undefined && annotations[STAMP] !== undefined)
          world.restarts.push({ name, at: Date.now() - RIG_START });
      }
      const { at } = begun.get(path) ?? { at: 0 };
      const isDone = api.field<{ availableReplicas: number }>(path, "status").availableReplicas === spec.replicas;
      if (known === undefined || isDone) continue;
      // A rollout starts one pod more than it replaces.
      const surge = `${podsPath(namespace)}/${name}-new`;
      if (Date.now() < at + world.startMs || world.broken.has(name)) {
        if (world.hasRoom && api.at(surge) === undefined)
          api.put(surge, podOf(`${name}-new`, name, annotations, world.injects));
        continue;
      }
      api.remove(surge);
      for (let index = 0; index < spec.replicas; index += 1) {
        const pod = podOf(`${name}-${index}`, name, annotations, world.injects);
        api.put(`${podsPath(namespace)}/${pod.name}`, pod);
      }
      report(path, false);
    }
  };

  /** The readers of the leaders that run, and the revision of the published map. Another thread unzips a map. */
  const readers = new Set<ReturnType<typeof observedReader>>();
  let published = "";
  const turns = async () => {
    const isReading = () => published !== "" && [...readers].some(({ revision }) => revision() !== published);
    for (let count = 0; isReading() && count < READING_TURNS; count += 1) await turn();
    for (let count = 0; count < 12; count += 1) await turn();
  };
  return {
    api,
    log,
    events,
    counted,
    config,
    world,
    /** Publishes a map of these names, with the namespaces that hold them. Returns its revision. */
    publish(names: Readonly<Record<string, string>>): string {
      world.hosts = new Map(Object.keys(names).map((name) => [name, [IP]]));
      const time = new Date(Date.now() + world.skewMs).toISOString();
      const objects = mapObjects(Object.fromEntries(world.hosts), { holders: names, time });
      for (const object of objects) api.put(`${CONFIG}/${object.metadata.name}`, object);
      published = publishedIn(objects).revision ?? "";
      return published;
    },
    /** Adds a Deployment that is rolled out, whose pods have the current names. */
    deploy(name: string, { namespace = "shop", replicas = 1, spec = {}, annotations = {}, template = {} } = {}): void {
      const path = deploymentPath(name, namespace);
      const of = { replicas, template: { metadata: { annotations: template } }, ...spec };
      api.put(path, { metadata: { generation: 1, annotations }, spec: of });
      report(path, false);
      for (let index = 0; index < replicas; index += 1) {
        const pod = podOf(`${name}-${index}`, name, template, world.injects);
        api.put(`${podsPath(namespace)}/${pod.name}`, pod);
      }
    },
    report,
    /** Merges into an object, as another client. */
    edit: (path: string, change: object) => void api.put(path, mergePatch(api.at(path), change) as object),
    /** Starts a leader. */
    lead() {
      const term = new AbortController();
      const begins = performance.now() + Date.now();
      const reader = observedReader({ client: api.client, namespace: config.namespace, log });
      const running = new Restarter({
        client: api.client,
        config,
        maps: reader.maps,
        observeAgents,
        log,
        events: { record: (event) => void events.push(event) },
        counters,
        now: () => Date.now() - begins + 1e9,
        wallClock: () => Date.now() + world.skewMs,
        signal: term.signal,
      });
      readers.add(reader);
      const end = async () => {
        readers.delete(reader);
        term.abort();
        await running.done;
      };
      t.after(end);
      const statusOf = (name: string) => rolloutStatus(running.pods).workloads.find((each) => each.name === name);
      return { running, end, statusOf, codeOf: (name: string) => statusOf(name)?.code };
    },
    /** Lets time pass in steps of `stepMs`, and lets the resulting work run. */
    async pass(ms: number, stepMs = 100): Promise<void> {
      await turns();
      for (let left = ms; left > 0; left -= stepMs) {
        rollOut();
        t.mock.timers.tick(Math.min(stepMs, left));
        await turns();
      }
      rollOut();
      await turns();
    },
  };
}

/** A reader of the published map, and the revision that it has offered last. */
export function observedReader(deps: Parameters<typeof kubeMapReader>[0]) {
  let revision: string | undefined;
  const maps: MapReader = {
    start: (found) =>
      kubeMapReader(deps).start((offer) => {
        found(offer);
        if (isMap(offer)) revision = offer.revision;
      }),
  };
  return { maps, revision: () => revision };
}

/** A leader, and the Deployment `web`, which is in step with the map FIRST. */
export async function inStep(t: TestContext, restart: Readonly<Record<string, unknown>> = {}) {
  const rig = restartRig(t, restart);
  rig.publish(FIRST);
  rig.deploy("web");
  const leader = rig.lead();
  await rig.pass(1_000);
  assert.equal(leader.codeOf("web"), "in-step");
  return { ...rig, ...leader };
}

/** How often a workload was restarted by the controller. */
export function times({ world }: Pick<ReturnType<typeof restartRig>, "world">, name = "web"): number {
  return world.restarts.filter((each) => each.name === name).length;
}
