import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { isSettled, settled, stopTime } from "#test/fakes/stopped-time.ts";
import { FrontServices } from "./front-services.ts";

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
type Spec = typeof FRONT.spec & { readonly clusterIPs?: readonly string[]; readonly trafficDistribution?: string };

interface Setting {
  readonly prepare?: (kube: MemoryKube) => void;
  readonly trafficDistribution?: "PreferSameNode";
}

/** Front Services with an API server in memory, whose watch has started. */
async function rig(t: TestContext, { prepare, trafficDistribution }: Setting = {}) {
  const kube = new MemoryKube();
  const log = new LineLog();
  const lost: string[][] = [];
  prepare?.(kube);
  const services = new FrontServices({
    client: kube.client,
    namespace: "sys",
    selector: SELECTOR,
    trafficDistribution,
    log,
    notify: (...parts) => lost.push(parts),
    onChange: () => {},
  });
  services.start();
  t.after(() => services.stop());
  await settled();
  const specs = () => kube.writes.map(({ body }) => (body as { spec: Spec } | undefined)?.spec as Spec);
  /** Returns the specs that were written. */
  const ensure = async (target = EDGE, held: readonly string[] = [], signal = new AbortController().signal) => {
    const before = kube.writes.length;
    await services.ensure(target, held, signal);
    return specs().slice(before);
  };
  return { kube, services, ensure, specs, log, lost, codes: () => log.lines.map(({ fields }) => fields) };
}

const HELD = ["198.51.100.9", "2001:db8::9"];
const taken = () => new SwitchbackError("kube-status", "provided IP is already allocated", { status: 422 });

test("a front is written once, with all fields; its address is known from the response", async (t) => {
  const { kube, services, ensure } = await rig(t);
  await ensure();
  const path = `${PATH}/switchback-edge`;
  assert.deepEqual(kube.writes, [{ method: "APPLY", path, fieldManager: "switchback-controller", body: FRONT }]);
  assert.deepEqual([...services.addresses], [["edge", ["198.51.100.1"]]]);
  await settled();
  assert.deepEqual(await ensure(), []);
});

test("a front that was just deleted gets its address again, even if that is refused at first", async (t) => {
  const pass = stopTime(t);
  const { kube, ensure, services, lost } = await rig(t);
  let refusals = 2;
  kube.onWrite = () => {
    if (refusals-- > 0) throw taken();
  };
  const ensured = ensure(EDGE, HELD);
  await pass(3_000);
  assert.ok(await isSettled(ensured));
  assert.deepEqual([[...services.addresses.values()], lost], [[HELD], []]);
});

/** The response of kube-apiserver 1.33. */
const unsupported = (value: string) =>
  new SwitchbackError(
    "kube-status",
    `Service "switchback-edge" is invalid: spec.trafficDistribution: Unsupported value: "${value}": supported ` +
      `values: "PreferClose"`,
    { status: 422 },
  );

test("a trafficDistribution that the API server does not know is left out; the front keeps its address", async (t) => {
  const { kube, ensure, services, codes } = await rig(t, { trafficDistribution: "PreferSameNode" });
  assert.deepEqual((await ensure({ ...EDGE, name: "known" })).at(0)?.trafficDistribution, "PreferSameNode");
  kube.onWrite = ({ body }) => {
    const { trafficDistribution: value } = (body as { spec: Spec }).spec;
    if (value !== undefined) throw unsupported(value);
  };
  // Two at a time, of which only one reports it.
  await Promise.all([ensure(EDGE, HELD), ensure({ ...EDGE, name: "other" })]);
  const [written, ...more] = await ensure({ ...EDGE, name: "third" });
  assert.deepEqual(
    [written && "trafficDistribution" in written, more, services.addresses.get("edge")],
    [false, [], HELD],
  );
  assert.deepEqual(codes(), [{ code: "traffic-distribution-refused", tried: "PreferSameNode" }]);
});

test("trafficDistribution is not written again and again if the API server drops it", async (t) => {
  const { kube, ensure } = await rig(t, { trafficDistribution: "PreferSameNode" });
  const { apply } = kube.client;
  kube.client.apply = async (path, object, options) => {
    const { trafficDistribution: _, ...spec } = (object as { spec: Spec }).spec;
    return await apply(path, { ...object, spec }, options);
  };
  for (const round of [1, 2, 3]) assert.ok((await ensure()).length <= (round === 3 ? 0 : 1), String(round));
});
