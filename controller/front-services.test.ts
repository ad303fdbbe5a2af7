import assert from "node:assert/strict";
import { test } from "node:test";
import { SwitchbackError } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import type { PublishedTarget } from "../snapshot/targets-format.ts";
import { silentLogger } from "../telemetry/log.ts";
import { isSettled, stopTime } from "../test/fakes/stopped-time.ts";
import { FrontServices } from "./front-services.ts";

const HELD = ["198.51.100.9"];
const TARGET = { name: "edge", ports: [] } as unknown as PublishedTarget;

interface Applied {
  readonly spec: { readonly clusterIPs?: readonly string[] };
}

/** Front Services of an API server that refuses the first `refusals` writes that ask for an address. */
function fronts(refusals: number) {
  const asked: (readonly string[] | undefined)[] = [];
  const lost: string[] = [];
  const apply = async (_path: string, object: Applied) => {
    const { clusterIPs } = object.spec;
    asked.push(clusterIPs);
    if (clusterIPs !== undefined && asked.length <= refusals) {
      throw new SwitchbackError("kube-status", "provided IP is already allocated", { status: 422 });
    }
    const labels = { "switchback.dev/target": "edge" };
    return { metadata: { name: "switchback-edge", labels }, spec: { clusterIPs: clusterIPs ?? ["198.51.100.77"] } };
  };
  const services = new FrontServices({
    client: { apply } as unknown as KubeClient,
    namespace: "switchback-system",
    selector: {},
    log: silentLogger,
    notify: (code) => lost.push(code),
    onChange: () => {},
  });
  services.remember("edge", HELD);
  return { services, asked, lost };
}

test("a front that was just deleted gets its address again, although it is refused for a moment", async (t) => {
  const pass = stopTime(t);
  const { services, asked, lost } = fronts(2);
  const ensured = services.ensure(TARGET, new AbortController().signal);
  await pass(3_000);
  assert.ok(await isSettled(ensured), "within the time for which an address is asked for");
  await ensured;
  assert.deepEqual(asked, [HELD, HELD, HELD]);
  assert.deepEqual(services.addressesOf("edge"), HELD);
  assert.deepEqual(lost, []);
});

test("an address that is refused for good is given up, and people are told", async (t) => {
  const pass = stopTime(t);
  const { services, lost } = fronts(100);
  const ensured = services.ensure(TARGET, new AbortController().signal);
  await pass(3_000);
  assert.ok(await isSettled(ensured), "within the time for which an address is asked for");
  await ensured;
  assert.deepEqual(services.addressesOf("edge"), ["198.51.100.77"]);
  assert.deepEqual(lost, ["front-address-lost"]);
});

test("who no longer leads gives no address up", async () => {
  const { services, asked, lost } = fronts(100);
  const deposed = new AbortController();
  const ensured = services.ensure(TARGET, deposed.signal);
  deposed.abort();
  await assert.rejects(ensured);
  assert.deepEqual(asked, [HELD]);
  assert.deepEqual(lost, []);
});
