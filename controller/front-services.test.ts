import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { NO_VERSION } from "#lib/kube/leader-client.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import { FrontServices } from "./front-services.ts";

const HELD = ["198.51.100.9", "2001:db8::9"];
const TARGET = { name: "edge", ports: [] } as unknown as PublishedTarget;

interface Applied {
  readonly spec: { readonly clusterIPs?: readonly string[] };
}

/** Front Services with an API server that refuses the first `refusals` requests for an address. */
function fronts(refusals: number) {
  const asked: (readonly string[] | undefined)[] = [];
  const lost: string[][] = [];
  const log = new LineLog();
  const apply = async (_path: string, object: Applied) => {
    const { clusterIPs } = object.spec;
    asked.push(clusterIPs);
    if (clusterIPs !== undefined && asked.length <= refusals) {
      throw new SwitchbackError("kube-status", "provided IP is already allocated", { status: 422 });
    }
    const labels = { "switchback.dev/target": "edge" };
    return { metadata: { name: "switchback-edge", labels }, spec: { clusterIPs: clusterIPs ?? ["198.51.100.77"] } };
  };
  const client = { apply } as unknown as KubeClient;
  const services = new FrontServices({
    client,
    namespace: "switchback-system",
    selector: {},
    log,
    notify: (...parts) => lost.push(parts),
    onChange: () => {},
  });
  services.remember("edge", HELD);
  const term = () => new AbortController().signal;
  return { services, asked, lost, log, term };
}

test("a front that was just deleted gets its address again, even if that is refused at first", async (t) => {
  const pass = stopTime(t);
  const { services, asked, lost, term } = fronts(2);
  const ensured = services.ensure(TARGET, term());
  await pass(3_000);
  assert.ok(await isSettled(ensured), "within the time for which an address is asked for");
  await ensured;
  assert.deepEqual(asked, [HELD, HELD, HELD]);
  assert.deepEqual(services.addressesOf("edge"), HELD);
  assert.deepEqual(lost, []);
});

test("an address is requested five times in three seconds, and each refusal is logged", async (t) => {
  const pass = stopTime(t);
  const { services, asked, log, term } = fronts(100);
  void services.ensure(TARGET, term());
  const counts: number[] = [];
  for (const ms of [90, 10, 190, 10, 390, 10, 790, 10, 1_490, 10]) {
    await pass(ms);
    counts.push(asked.length);
  }
  assert.deepEqual(counts, [1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
  assert.deepEqual(
    log.lines.map(({ level, fields, message }) => [level, fields, message]),
    [
      ...[100, 200, 400, 800, 1_500].map((waitMs) => [
        "warn",
        { code: "front-address-refused", target: "edge", waitMs },
        "provided IP is already allocated",
      ]),
      [
        "error",
        { code: "front-address-lost", target: "edge" },
        "the ClusterIP 198.51.100.9, 2001:db8::9 could not be reassigned; pods that hold it must be recreated",
      ],
    ],
  );
});

test("an address that is always refused is given up, with an Event", async (t) => {
  const pass = stopTime(t);
  const { services, asked, lost, term } = fronts(100);
  const ensured = services.ensure(TARGET, term());
  await pass(3_000);
  assert.ok(await isSettled(ensured), "within the time for which an address is asked for");
  await ensured;
  assert.deepEqual(services.addressesOf("edge"), ["198.51.100.77"]);
  const note = "the ClusterIP 198.51.100.9, 2001:db8::9 could not be reassigned; pods that hold it must be recreated";
  assert.deepEqual(lost, [["front-address-lost", note, "switchback-edge"]]);
  assert.deepEqual(asked, [HELD, HELD, HELD, HELD, HELD, undefined]);
});

test("a former leader does not give up an address", async () => {
  const { services, asked, lost } = fronts(100);
  const deposed = new AbortController();
  const ensured = services.ensure(TARGET, deposed.signal);
  deposed.abort();
  await assert.rejects(ensured);
  assert.deepEqual(asked, [HELD]);
  assert.deepEqual(lost, []);
});

const PATH = "/api/v1/namespaces/sys/services";
const EDGE: PublishedTarget = {
  name: "edge",
  upstream: "h",
  ports: [
    { port: 443, listenPort: 16_000, upstreamPort: 443, protocol: "v1" },
    { port: 80, listenPort: 16_001, upstreamPort: 80, protocol: "v1" },
  ],
  clusterIPs: [],
};
const SELECTOR = { "b/name": "switchback", "a/part": "proxy" };
/** The applied front Service of `EDGE`, without an address. */
const FRONT = {
  apiVersion: "v1",
  kind: "Service",
  metadata: {
    name: "switchback-edge",
    namespace: "sys",
    labels: {
      "app.kubernetes.io/name": "switchback",
      "app.kubernetes.io/component": "front",
      "switchback.dev/target": "edge",
    },
  },
  spec: {
    type: "ClusterIP",
    ipFamilyPolicy: "PreferDualStack",
    selector: SELECTOR,
    ports: [
      { name: "tcp-443", protocol: "TCP", port: 443, targetPort: 16_000 },
      { name: "tcp-80", protocol: "TCP", port: 80, targetPort: 16_001 },
    ],
  },
};

/** Front Services with an API server in memory, whose watch has started. */
async function followed(
  t: TestContext,
  prepare: (kube: MemoryKube) => void = () => {},
  trafficDistribution?: "PreferSameNode",
) {
  const kube = new MemoryKube();
  const log = new LineLog();
  prepare(kube);
  const state = { changes: 0 };
  const services = new FrontServices({
    client: kube.client,
    namespace: "sys",
    selector: SELECTOR,
    trafficDistribution,
    log,
    notify: () => assert.fail("no address is lost"),
    onChange: () => {
      state.changes += 1;
    },
  });
  assert.deepEqual([services.synced, services.inactiveMs], [false, 0]);
  services.start();
  t.after(() => services.stop());
  await settled();
  const ensure = async (target = EDGE) => {
    const before = kube.writes.length;
    await services.ensure(target, new AbortController().signal);
    return kube.writes.slice(before).map(({ body }) => (body as typeof FRONT).spec);
  };
  return { kube, services, state, ensure, log };
}

test("a front is written once, with all fields; its address is known from the response", async (t) => {
  const { kube, services, state, ensure } = await followed(t);
  assert.deepEqual([services.synced, state.changes], [true, 1]);
  await ensure();
  const path = `${PATH}/switchback-edge`;
  const body = { ...FRONT, metadata: { ...FRONT.metadata, resourceVersion: NO_VERSION } };
  assert.deepEqual(kube.writes, [{ method: "APPLY", path, fieldManager: "switchback-controller", body }]);
  assert.deepEqual([...services.addresses], [["edge", ["198.51.100.1"]]]);
  assert.deepEqual(await ensure(), []);
  await settled();
  assert.deepEqual([await ensure(), state.changes], [[], 2]);
});

test("a front that somebody changes or deletes is written again, with the addresses that pods hold", async (t) => {
  const { kube, services, ensure } = await followed(t);
  await ensure();
  const front = kube.at(`${PATH}/switchback-edge`);
  const held = ["198.51.100.1"];
  const again = [{ ...FRONT.spec, clusterIP: held[0], clusterIPs: held }];
  const spec = front?.spec as typeof FRONT.spec;
  for (const changed of [
    { ...spec, selector: {} },
    { ...spec, selector: undefined },
    { ...spec, ports: spec.ports.slice(1) },
    { ...spec, ports: [{ port: 443 }, { port: 80 }] },
  ]) {
    kube.put(`${PATH}/switchback-edge`, { ...front, spec: changed });
    await settled();
    assert.deepEqual(await ensure(), again, JSON.stringify(changed));
    assert.deepEqual(await ensure(), []);
  }
  kube.remove(`${PATH}/switchback-edge`);
  await settled();
  assert.deepEqual(services.addressesOf("edge"), held);
  assert.deepEqual(await ensure(), again);
});

test("a front that is deleted before the answer to its last write arrives is written again", async (t) => {
  const { kube, ensure } = await followed(t);
  await ensure();
  await settled();
  const { apply } = kube.client;
  kube.client.apply = async (path, object, options) => {
    const written = await apply(path, object, options);
    await settled();
    kube.remove(path);
    await settled();
    return written as never;
  };
  const changed = { ...EDGE, ports: EDGE.ports.slice(1) };
  await ensure(changed);
  kube.client.apply = apply;
  assert.equal((await ensure(changed)).length, 1);
});

test("the order of a selector's labels does not matter; a port is its own default target port", async (t) => {
  const selector = { "a/part": "proxy", "b/name": "switchback" };
  const spec = { clusterIP: "198.51.100.7", clusterIPs: ["198.51.100.7"], selector, ports: [{ port: 80 }] };
  const { ensure } = await followed(t, (kube) => kube.put(`${PATH}/switchback-edge`, { ...FRONT, spec }));
  const port = { port: 80, listenPort: 80, upstreamPort: 80, protocol: "v1" } as const;
  assert.deepEqual(await ensure({ ...EDGE, ports: [port] }), []);
});

test("a Service is a front only if its name matches its label", async (t) => {
  const spec = { ...FRONT.spec, clusterIP: "198.51.100.8", clusterIPs: ["198.51.100.8"] };
  const { kube, services, state, ensure } = await followed(t, (api) => {
    api.put(`${PATH}/somebodys`, { ...FRONT, metadata: { labels: FRONT.metadata.labels }, spec });
    api.put(`${PATH}/switchback-edge`, { ...FRONT, metadata: { labels: { "switchback.dev/target": "other" } }, spec });
    api.put(`${PATH}/switchback-`, { ...FRONT, metadata: { labels: { "switchback.dev/target": "" } }, spec });
    api.put(`${PATH}/switchback-third`, { ...FRONT, metadata: {}, spec });
  });
  assert.deepEqual([[...services.addresses], state.changes], [[], 4]);
  // The first write creates the front. Only its refusal reveals the Service with another label.
  assert.deepEqual(await ensure(), [FRONT.spec, FRONT.spec]);
  assert.equal(kube.at(`${PATH}/switchback-edge`)?.metadata.labels?.["switchback.dev/target"], "edge");
});

test("the first remembered addresses of a target stay until its front is observed", async (t) => {
  const { services, ensure } = await followed(t);
  services.remember("edge", []);
  assert.deepEqual([...services.addresses], []);
  services.remember("edge", ["198.51.100.50"]);
  services.remember("edge", ["198.51.100.60"]);
  assert.deepEqual(services.addressesOf("edge"), ["198.51.100.50"]);
  assert.deepEqual(services.addressesOf("other"), []);
  assert.deepEqual(await ensure(), [{ ...FRONT.spec, clusterIP: "198.51.100.50", clusterIPs: ["198.51.100.50"] }]);
});

test("errors other than a refused address are thrown at once, also a 422 if no address was requested", async (t) => {
  const { kube, services, ensure } = await followed(t);
  for (const status of [403, 422]) {
    kube.onWrite = ({ path }) => {
      throw refusal(path, status);
    };
    if (status === 403) services.remember("held", HELD);
    await assert.rejects(ensure({ ...EDGE, name: status === 403 ? "held" : "edge" }), { status });
  }
  assert.equal(kube.writes.length, 2);
});

test("a front is deleted and forgotten, also if it is already gone, but not if the deletion is refused", async (t) => {
  const { kube, services, ensure } = await followed(t);
  for (const isGone of [false, true]) {
    kube.onWrite = () => {};
    await ensure();
    kube.onWrite = ({ path, method }) => {
      if (isGone && method === "DELETE") kube.remove(path);
    };
    await services.remove("edge");
    assert.deepEqual([...services.addresses], []);
    assert.deepEqual([kube.writes.at(-1)?.method, kube.writes.at(-1)?.path], ["DELETE", `${PATH}/switchback-edge`]);
    assert.equal((await ensure()).length, 1, "it is written again if it is needed again");
  }
  kube.onWrite = ({ path }) => {
    throw refusal(path, 403);
  };
  const before = services.addressesOf("edge");
  await assert.rejects(services.remove("edge"), { status: 403 });
  assert.deepEqual(services.addressesOf("edge"), before);
});

test("stopping ends the watch, whose inactivity is measured until then; it also works without a start", async (t) => {
  const { kube, services } = await followed(t);
  const { now } = performance;
  const later = t.mock.method(performance, "now", () => now.call(performance) + 60_000);
  assert.ok(services.inactiveMs >= 60_000);
  later.mock.restore();
  assert.deepEqual(kube.watched, [PATH]);
  await services.stop();
  assert.deepEqual(kube.watched, []);
  await fronts(0).services.stop();
});

describe("trafficDistribution", () => {
  /** The response of kube-apiserver 1.33. */
  const refused = (value: string) =>
    new SwitchbackError(
      "kube-status",
      `Service "switchback-edge" is invalid: spec.trafficDistribution: Unsupported value: "${value}": supported ` +
        `values: "PreferClose"`,
      { status: 422 },
    );

  /** Fronts with `PreferSameNode`, and an API server that accepts only these values. */
  async function distributed(t: TestContext, ...values: readonly string[]) {
    const rig = await followed(t, () => {}, "PreferSameNode");
    const { apply } = rig.kube.client;
    rig.kube.client.apply = async (path, object, options) => {
      const { trafficDistribution: value } = (object as { spec: { trafficDistribution?: string } }).spec;
      if (value !== undefined && !values.includes(value)) throw refused(value);
      return await apply(path, object, options);
    };
    const written = async (target?: PublishedTarget) =>
      (await rig.ensure(target)).map((spec) => (spec as { trafficDistribution?: string }).trafficDistribution);
    return { ...rig, written };
  }

  test("is written with the front, and again after somebody changes it", async (t) => {
    const { kube, written } = await distributed(t, "PreferSameNode");
    assert.deepEqual(await written(), ["PreferSameNode"]);
    assert.deepEqual(await written(), []);
    const front = kube.at(`${PATH}/switchback-edge`);
    kube.put(`${PATH}/switchback-edge`, {
      ...front,
      spec: { ...(front?.spec as object), trafficDistribution: undefined },
    });
    await settled();
    assert.deepEqual(await written(), ["PreferSameNode"]);
  });

  test("is removed from a front once it is no longer configured", async (t) => {
    const spec = { ...FRONT.spec, clusterIPs: ["198.51.100.7"], trafficDistribution: "PreferClose" };
    const { ensure } = await followed(t, (kube) => kube.put(`${PATH}/switchback-edge`, { ...FRONT, spec }));
    const [written, ...more] = await ensure();
    assert.deepEqual([written !== undefined && "trafficDistribution" in written, more], [false, []]);
  });

  test("falls back to PreferClose, then to none, on an older API server; the front keeps its address", async (t) => {
    const { written, services, log } = await distributed(t, "PreferClose");
    services.remember("edge", ["198.51.100.1"]);
    assert.deepEqual(await written(), ["PreferClose"]);
    assert.deepEqual(await written({ ...EDGE, name: "other" }), ["PreferClose"]);
    assert.deepEqual(services.addressesOf("edge"), ["198.51.100.1"]);
    const codes = () => log.lines.map(({ fields }) => fields);
    assert.deepEqual(codes(), [
      { code: "traffic-distribution-refused", tried: "PreferSameNode", instead: "PreferClose" },
    ]);
    const none = await distributed(t);
    assert.deepEqual(await none.written(), [undefined]);
    assert.equal(none.log.lines.length, 2);
  });

  test("is not written again and again if the API server drops it", async (t) => {
    const { kube, written } = await distributed(t, "PreferSameNode", "PreferClose");
    const { apply } = kube.client;
    kube.client.apply = async (path, object, options) => {
      const { trafficDistribution: _, ...spec } = (object as { spec: { trafficDistribution?: string } }).spec;
      return await apply(path, { ...object, spec }, options);
    };
    for (const round of [1, 2, 3]) assert.ok((await written()).length <= (round === 3 ? 0 : 1), String(round));
    assert.deepEqual(await written(), []);
  });
});
