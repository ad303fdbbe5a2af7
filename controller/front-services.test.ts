import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
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
  const services = new FrontServices(
    {
      client: kube.client,
      config: { namespace: "sys", proxy: { ...parseConfig({}).proxy, selector: SELECTOR, trafficDistribution } },
      log,
      notify: (...parts) => lost.push(parts),
    },
    () => {},
  );
  t.after(() => services.watch.stop());
  await settled();
  const specs = () => kube.writes.map(({ body }) => (body as { spec: Spec } | undefined)?.spec as Spec);
  /** Returns the specs that were written. */
  const ensure = async (target = EDGE, held: readonly string[] = [], signal = new AbortController().signal) => {
    const before = kube.writes.length;
    await services.ensure(target, held, signal);
    return specs().slice(before);
  };
  const addresses = () => Object.fromEntries(services.targets.map(({ name, clusterIPs }) => [name, clusterIPs]));
  return { kube, addresses, ensure, lost, codes: () => log.lines.map(({ fields }) => fields) };
}

const HELD = ["198.51.100.9", "2001:db8::9"];
const taken = () => new SwitchbackError("kube-status", "provided IP is already allocated", { status: 422 });

test("a front is written once, with all fields, and again after somebody has edited it", async (t) => {
  const { kube, addresses, ensure } = await rig(t);
  await ensure();
  const path = `${PATH}/switchback-edge`;
  assert.deepEqual(kube.writes, [{ method: "APPLY", path, fieldManager: "switchback-controller", body: FRONT }]);
  assert.deepEqual(addresses(), { edge: ["198.51.100.1"] });
  await settled();
  assert.deepEqual(await ensure(), []);
  kube.put(path, { ...FRONT, spec: { ...FRONT.spec, selector: { "a/part": "evil" } } });
  await settled();
  assert.equal((await ensure()).length, 1);
  await settled();
  assert.deepEqual(await ensure(), []);
});

test("a front that was just deleted gets its address again, even if that is refused at first", async (t) => {
  const pass = stopTime(t);
  const { kube, ensure, addresses, lost } = await rig(t);
  let refusals = 2;
  kube.onWrite = () => {
    if (refusals-- > 0) throw taken();
  };
  const ensured = ensure(EDGE, HELD);
  await pass(3_000);
  assert.ok(await isSettled(ensured));
  assert.deepEqual([addresses(), lost], [{ edge: HELD }, []]);
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
  const { kube, ensure, addresses, codes } = await rig(t, { trafficDistribution: "PreferSameNode" });
  assert.deepEqual((await ensure({ ...EDGE, name: "known" })).at(0)?.trafficDistribution, "PreferSameNode");
  kube.onWrite = ({ body }) => {
    const { trafficDistribution: value } = (body as { spec: Spec }).spec;
    if (value !== undefined) throw unsupported(value);
  };
  // Two at a time, of which only one reports it.
  await Promise.all([ensure(EDGE, HELD), ensure({ ...EDGE, name: "other" })]);
  const [written, ...more] = await ensure({ ...EDGE, name: "third" });
  assert.deepEqual([written && "trafficDistribution" in written, more, addresses().edge], [false, [], HELD]);
  assert.deepEqual(codes(), [{ code: "traffic-distribution-refused", tried: "PreferSameNode" }]);
});
