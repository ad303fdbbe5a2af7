import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { PodUpdater } from "#controller/rollout/pod-updater.ts";
import { RolloutController } from "#controller/rollout/run.ts";
import { describeManaged } from "#hostmap/managed-aliases.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { EventRecord } from "#lib/kube/events.ts";
import { mapObjects, OBJECTS, publishedIn } from "../published.ts";
import { LineLog } from "./clock.ts";
import { MemoryKube } from "./memory-kube.ts";

/** Start time of the tests, in milliseconds since 1970. */
export const RIG_START = Date.parse("2026-01-01T00:00:00Z");
const CONFIG = "/api/v1/namespaces/switchback-system/configmaps";
export const RECORDS = `${CONFIG}/${OBJECTS.records}`;
export const WEB = "/apis/apps/v1/namespaces/shop/deployments/web";
/** Many more turns of the event loop than an answer over the loopback takes. */
const MOST_TURNS = 20_000;

/** Settings of the section `restart`. */
type Restart = Readonly<Record<string, unknown>>;

/**
 * The leader's work on running pods for one term, against an API server in memory. Timers and `Date` are mocked, so
 * that time passes only in `pass`. The cluster has only the namespace `shop`, which opted in and is listed.
 */
export function runningRig(
  t: TestContext,
  restart: Restart = {},
  { updaters = [], ...more }: { readonly updaters?: readonly PodUpdater[] } & object = {},
) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: RIG_START });
  const api = new MemoryKube();
  const log = new LineLog();
  const events: EventRecord[] = [];
  const counted: string[] = [];
  const count = (what: string) => () => void counted.push(what);
  const term = new AbortController();
  const config = parseConfig({ restart: { namespaces: ["shop"], ...restart }, ...more });
  const clock = { reads: 0 };
  api.put("/api/v1/namespaces/shop", { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
  const start = () => {
    const running = new RolloutController(
      {
        client: api.client,
        config,
        updaters,
        log,
        events: { record: (event) => void events.push(event) },
        counters: {
          restarted: count("restarted"),
          conflict: count("conflict"),
          forbidden: count("forbidden"),
          outcome: (outcome) => void counted.push(outcome),
        },
        now: () => {
          clock.reads += 1;
          return Date.now();
        },
        wallClock: Date.now,
      },
      term.signal,
    );
    t.after(async () => {
      term.abort();
      await running.done;
    });
    return running;
  };
  /** Lets time pass in steps of at most 50 ms, and lets the resulting work run. */
  const pass = async (ms: number): Promise<void> => {
    await turns();
    for (let left = ms; left > 0; left -= 50) {
      t.mock.timers.tick(Math.min(50, left));
      await turns();
    }
  };
  return {
    api,
    log,
    events,
    counted,
    term,
    config,
    clock,
    start,
    pass,
    ...objectsOf(api),
    replica: () => replica(t, api),
  };
}

/** Lets promises settle and the next turns of the event loop run. */
async function turns(): Promise<void> {
  for (let count = 0; count < 6; count += 1) await turn();
}

/** Lets the event loop turn until the condition holds. For results that arrive over the loopback. */
export async function reached(what: string, condition: () => boolean): Promise<void> {
  for (let count = 0; !condition(); count += 1) {
    if (count > MOST_TURNS) throw new Error(`timeout while waiting for ${what}`);
    await turn();
  }
}

function objectsOf(api: MemoryKube) {
  return {
    /** Publishes a map of these names. Returns its revision. */
    publish(...names: string[]): string {
      const objects = mapObjects(Object.fromEntries(names.map((name) => [name, ["198.51.100.9"]])));
      for (const object of objects) put(api, `${CONFIG}/${object.metadata.name}`, object);
      put(api, `${CONFIG}/${OBJECTS.reachable}`, {});
      return publishedIn(objects).revision ?? "";
    },
    /** Adds a Deployment that is rolled out, with its ReplicaSet. */
    deployment(name = "web", more: { generation?: number; annotations?: Record<string, string> } = {}): void {
      const { generation = 1, annotations = {} } = more;
      put(api, `/apis/apps/v1/namespaces/shop/deployments/${name}`, {
        metadata: { generation, annotations },
        spec: { replicas: 1 },
        status: { observedGeneration: generation, replicas: 1, updatedReplicas: 1, availableReplicas: 1 },
      });
      const owner = { apiVersion: "apps/v1", kind: "Deployment", name, uid: `uid-${name}`, controller: true };
      put(api, `/apis/apps/v1/namespaces/shop/replicasets/${name}-1`, { metadata: { ownerReferences: [owner] } });
    },
    /** Adds a pod of a Deployment's ReplicaSet. `names`: the names that the webhook put into the pod's spec. */
    pod(
      name: string,
      more: { of?: string; annotations?: Record<string, string>; node?: string; names?: string[] } = {},
    ) {
      const { of = "web", annotations = {}, node, names = [] } = more;
      const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: `${of}-1`, uid: "rs", controller: true };
      const hostAliases = names.length === 0 ? [] : [{ ip: "198.51.100.9", hostnames: names }];
      const owned = { "switchback.dev/owned": describeManaged(hostAliases) };
      put(api, `/api/v1/namespaces/shop/pods/${name}`, {
        metadata: { annotations: { ...owned, ...annotations }, ownerReferences: [owner] },
        spec: { nodeName: node, hostAliases },
      });
    },
  };
}

function put(api: MemoryKube, path: string, object: object): void {
  api.put(path, object);
}

/** Adds the webhook's configuration and one ready replica. The replica reports the contents of `loaded`. */
async function replica(t: TestContext, api: MemoryKube) {
  const loaded = { revision: "", maxNames: 500, asked: 0 };
  const server = createServer((_request, response) => {
    loaded.asked += 1;
    response.end(JSON.stringify(loaded));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  put(api, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook", {});
  put(api, "/apis/discovery.k8s.io/v1/namespaces/switchback-system/endpointslices/webhook-1", {
    metadata: { labels: { "kubernetes.io/service-name": "switchback-webhook" } },
    endpoints: [{ addresses: ["127.0.0.1"], conditions: { ready: true } }],
    ports: [{ name: "metrics", port }],
  });
  return loaded;
}
