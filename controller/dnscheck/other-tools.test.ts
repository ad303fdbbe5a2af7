import assert from "node:assert/strict";
import { test } from "node:test";
import type { DnsLookup } from "./lookup.ts";
import { OtherTools } from "./other-tools.ts";

const TOOL = "hairpin-proxy.hairpin-proxy.svc.cluster.local";
const settle = () => new Promise((resolve) => setImmediate(resolve));

test("the ClusterIPs of other tools are looked up every minute, and stay if an answer is missing", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let records: Record<string, string> | undefined = { [TOOL]: "10.96.7.7" };
  const lookup: DnsLookup = async (name, family) => {
    if (records === undefined) throw new Error("ESERVFAIL");
    const address = family === 4 ? records[name] : undefined;
    return { addresses: address === undefined ? [] : [address], ttl: 30 };
  };
  const tools = new OtherTools(lookup, "cluster.local");
  tools.start();
  t.after(() => tools.stop());
  assert.equal(tools.known, false);
  await settle();
  assert.deepEqual([tools.known, tools.has("10.96.7.7"), tools.has("10.96.7.8")], [true, true, false]);
  records = undefined;
  t.mock.timers.tick(60_000);
  await settle();
  assert.equal(tools.has("10.96.7.7"), true);
  records = {};
  t.mock.timers.tick(60_000);
  await settle();
  assert.equal(tools.has("10.96.7.7"), false);
});

test("without the cluster's domain, or in a cluster without such a tool, no address is recognized", async (t) => {
  const tools = new OtherTools(async () => assert.fail("asked"), undefined);
  tools.start();
  t.after(() => tools.stop());
  await settle();
  assert.deepEqual([tools.known, tools.has("10.96.7.7")], [true, false]);
});
