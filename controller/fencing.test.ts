import assert from "node:assert/strict";
import { before, test } from "node:test";
import { KubeBundleWriter } from "#certs/ca-bundle-kube.ts";
import { runTurn, type TurnContext } from "#certs/reconcile.ts";
import { KubeSecretStore } from "#certs/secret-store-kube.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { Fence } from "#lib/kube/fence.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { restartWorkload } from "#lib/workloads/restart.ts";
import { type RawWorkload, workloadState } from "#lib/workloads/workload-state.ts";
import { TestCatalog, target } from "#test/fakes/fronts-rig.ts";
import { KEY_POOL, pooledKey } from "#test/fakes/keys.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { SuspendedClient } from "#test/fakes/suspended-client.ts";
import { OBJECTS } from "#test/published.ts";
import { FrontReconciler } from "./front-reconciler.ts";
import { outdateEarlierPatches } from "./rollout/earlier-restarts.ts";
import { stamp } from "./rollout/restart-history.ts";
import { RestartRecords } from "./rollout/restart-records.ts";

// These tests suspend a leader before and after each of its requests. Meanwhile, a second leader does its work. Then
// the first leader resumes. It believes that it leads until the test ends, but none of its writes may succeed.

const never = new AbortController().signal;
const NAMESPACE = "switchback-system";

/**
 * Leads with a client until its work is done, and returns a function that stops it. The two leaders of a test do
 * different things.
 */
type Lead = (client: KubeClient, fence: Fence, which: "first" | "second") => Promise<() => Promise<void>>;

interface Suspension {
  readonly prepare: (kube: MemoryKube) => void;
  readonly lead: Lead;
  /** What the leaders write. */
  readonly state: (kube: MemoryKube) => unknown;
  /** Lets the first leader finish its work after it was resumed. */
  readonly goOn?: () => Promise<void>;
  /**
   * Whether the watches show the changes before the suspended request is sent (true) or after it (false). Each value
   * is one try per point.
   */
  readonly watchesFirst?: readonly boolean[];
}

/** Suspends a leader at each possible point. Returns the number of tries. */
async function suspendEverywhere(suspension: Suspension): Promise<number> {
  const { prepare, lead, state, goOn = settled, watchesFirst: orders = [true, false] } = suspension;
  let tries = 0;
  for (let [point, ended] = [0, false]; !ended; point += 1) {
    for (const watchesFirst of orders) {
      const kube = new MemoryKube();
      prepare(kube);
      const leader = { name: "first" };
      const first = new SuspendedClient(kube.client, point);
      const termOf = (name: "first" | "second", client: KubeClient) =>
        new Fence({
          client,
          log: silentLogger,
          term: {
            // A process can also be suspended during the request for the Lease.
            confirm: async () => {
              await client.get("/lease").catch(() => undefined);
              const { name: holder } = leader;
              await client.get("/lease").catch(() => undefined);
              if (holder !== name) throw new SwitchbackError("term-over", "over");
            },
          },
        });
      const fenceOfFirst = termOf("first", first.client);
      const work = lead(first.client, fenceOfFirst, "first").catch(() => undefined);
      ended = await Promise.race([work.then(() => true), first.suspended.then(() => false)]);
      if (ended) break;
      leader.name = "second";
      const stop = await lead(kube.client, termOf("second", kube.client), "second");
      const decided = JSON.stringify(state(kube));
      await first.resume(watchesFirst);
      const resumed = await work;
      await goOn();
      await resumed?.();
      await stop();
      assert.deepEqual(first.taken, [], `suspended at point ${point}, watches first: ${watchesFirst}`);
      assert.equal(JSON.stringify(state(kube)), decided);
      tries += 1;
    }
  }
  return tries;
}

const DAYS = { caDays: 100, leafDays: 10, overlapMs: 0 };
const ENTRIES = [{ name: "pod.switchback.dev", clientConfig: {} }];
const CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";
const SECRETS = [OBJECTS.ca, OBJECTS.serving].map((name) => `/api/v1/namespaces/${NAMESPACE}/secrets/${name}`);

before(() => Promise.all(Array.from({ length: KEY_POOL }, pooledKey)));

/** Each leader configures a different domain, so each issues its own certificate. */
const leadCertificates: Lead = async (client, fence, which) => {
  const context: TurnContext = {
    ...DAYS,
    store: new KubeSecretStore({ client, namespace: NAMESPACE, log: silentLogger, fence }),
    bundleWriter: new KubeBundleWriter({ client, log: silentLogger, fence }),
    names: [`${which}.svc`],
    now: Date.now,
    makeKey: pooledKey,
    log: silentLogger,
  };
  await runTurn(context, never);
  return settled;
};

test("certificates: no write of a suspended leader succeeds, wherever it was suspended", async (t) => {
  const seeds = new Map<string, object>();
  const seeded = new MemoryKube();
  seeded.put(CONFIGURATION, { webhooks: ENTRIES });
  const fence = new Fence({ client: seeded.client, log: silentLogger, term: { confirm: async () => {} } });
  await leadCertificates(seeded.client, fence, "second");
  for (const path of [CONFIGURATION, ...SECRETS]) seeds.set(path, seeded.at(path) ?? {});
  const state = (kube: MemoryKube) => [kube.at(CONFIGURATION)?.webhooks, ...SECRETS.map((path) => kube.at(path)?.data)];
  const certificates = { lead: leadCertificates, state, watchesFirst: [true] };
  const empty = await suspendEverywhere({
    ...certificates,
    prepare: (kube) => kube.put(CONFIGURATION, { webhooks: ENTRIES }),
  });
  const kept = await suspendEverywhere({
    ...certificates,
    prepare: (kube) => {
      for (const [path, object] of seeds) kube.put(path, object);
    },
  });
  t.diagnostic(`${empty} tries with nothing there, ${kept} where the second leader has nothing to write`);
  assert.ok(empty >= 30 && kept >= 30);
});

const WEB = "/apis/apps/v1/namespaces/shop/deployments/web";
const RECORDS = `/api/v1/namespaces/${NAMESPACE}/configmaps/${OBJECTS.records}`;
const WORKLOAD = "shop/Deployment/web";

/** The first leader restarts a workload. The second finds nothing stale and only records outcomes. */
const leadRestarts: Lead = async (client, fence, which) => {
  const clocks = { now: Date.now, wallClock: Date.now, limitsMs: 0 };
  const records = await RestartRecords.open({ client, namespace: NAMESPACE, fence, ...clocks }, never);
  await outdateEarlierPatches(records, { client, fence, log: silentLogger, namespaces: ["shop"] }, never);
  const seen = workloadState("Deployment", await client.get<RawWorkload>(WEB));
  const before = records.of(WORKLOAD);
  assert.ok(!("code" in before));
  const last = before.at(-1);
  if (which === "second") {
    const isThere = last !== undefined && seen.restartedAt === stamp(last.at);
    if (last !== undefined) await records.put(WORKLOAD, isThere ? [{ ...last, outcome: "done" }] : [], never);
    return settled;
  }
  const restart = { at: Date.now(), from: [], to: "new", uid: seen.uid, generation: seen.generation };
  await records.put(WORKLOAD, [...before, restart], never);
  const options = { stamp: stamp(restart.at), fieldManager: "test" };
  const name = { namespace: "shop", kind: "Deployment", name: "web" } as const;
  const { result } = await restartWorkload(client, name, seen, options);
  await records.put(WORKLOAD, result === "restarted" ? [...before, { ...restart, outcome: "done" }] : before, never);
  return settled;
};

test("restarts: a suspended leader writes no record and restarts nothing, wherever it was suspended", async (t) => {
  const state = (kube: MemoryKube) => {
    const recorded = kube.field<Record<string, string>>(RECORDS, "data")["shop.Deployment.web"];
    const restartedAt = workloadState("Deployment", kube.at(WEB) as RawWorkload).restartedAt;
    assert.equal(recorded === undefined, restartedAt === undefined, "what was restarted is recorded, and nothing else");
    return [recorded, restartedAt];
  };
  const web = { spec: { template: {} } };
  const restarts = { lead: leadRestarts, state, watchesFirst: [true] };
  const empty = await suspendEverywhere({ ...restarts, prepare: (kube) => kube.put(WEB, web) });
  const full = await suspendEverywhere({
    ...restarts,
    prepare: (kube) => {
      kube.put(WEB, web);
      kube.put(RECORDS, { data: {} });
    },
  });
  t.diagnostic(`${empty} tries without records, ${full} with`);
  assert.ok(empty >= 30 && full >= 30);
});

const TARGETS = `/api/v1/namespaces/${NAMESPACE}/configmaps/${OBJECTS.targets}`;
const front = (name: string) => `/api/v1/namespaces/${NAMESPACE}/services/switchback-${name}`;

/** Each leader configures different ports for its targets, and may configure different targets. */
function leadFronts(
  pass: (ms: number) => Promise<void>,
  names: Readonly<Record<"first" | "second", readonly string[]>>,
): Lead {
  return async (client, fence, which) => {
    const configured: TargetConfig[] = names[which].map((name) =>
      target(name, { ports: [{ port: which === "first" ? 443 : 8443, protocol: "v1" }] }),
    );
    const catalog = new TestCatalog();
    catalog.config = configured;
    const config = parseConfig({ discovery: { keepSeconds: 0 } });
    const fronts = new FrontReconciler({
      client,
      config: { ...config, namespace: NAMESPACE, targets: configured },
      clusterDomain: "cluster.local",
      catalog,
      log: silentLogger,
      notify: () => {},
      now: Date.now,
      askProxy: async () => ({ listening: [] }),
    });
    fronts.start(() => {});
    await pass(100);
    fronts.use(new Set(names[which]));
    fronts.fenceBy(fence);
    fronts.lead([], never);
    await pass(20_000);
    return () => fronts.stop();
  };
}

for (const [what, first, second] of [
  ["has other ports", ["edge", "other"], ["edge", "other"]],
  ["removes a target", ["edge", "other"], ["edge"]],
  ["keeps what the first removes", ["edge"], ["edge", "other"]],
] as const) {
  test(`fronts: no write of a suspended leader succeeds, wherever it was suspended; the second ${what}`, async (t) => {
    const pass = stopTime(t, 1_000);
    const seeded = new MemoryKube();
    const fence = new Fence({ client: seeded.client, log: silentLogger, term: { confirm: async () => {} } });
    await leadFronts(pass, { first, second: ["edge", "other"] })(seeded.client, fence, "second");
    const paths = [TARGETS, ...["edge", "other"].map(front)];
    const state = (kube: MemoryKube) => paths.map((path) => [kube.at(path)?.data, kube.at(path)?.spec]);
    const tries = await suspendEverywhere({
      prepare: (kube) => {
        for (const path of paths) kube.put(path, seeded.at(path) ?? {});
      },
      lead: leadFronts(pass, { first, second }),
      state,
      goOn: () => pass(20_000),
    });
    t.diagnostic(`${tries} tries`);
    assert.ok(tries > 40);
  });
}
