import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { installed, NAMESPACE, ours } from "#test/fakes/installed.ts";
import { POD_DNS_UNINSTALL } from "./leave.ts";

describe("the resolvers of pod DNS", () => {
  const addressesOf = async (section: unknown) => {
    const api = installed();
    api.add(ours("services"), "switchback-dns-a", { spec: { clusterIPs: ["192.0.2.53", "2001:db8::53"] } });
    api.add(ours("services"), "switchback-webhook", { spec: { clusterIPs: ["192.0.2.1"] } });
    return [...((await POD_DNS_UNINSTALL.addresses?.(api.client, NAMESPACE, { podDns: section })) ?? [])];
  };
  const BOTH = [
    ["192.0.2.53", "switchback-dns-a"],
    ["2001:db8::53", "switchback-dns-a"],
  ];

  test("end with us", async () => {
    assert.deepEqual(await addressesOf({ enabled: true, resolvers: ["switchback-dns-a", "switchback-dns-b"] }), BOTH);
  });

  test("have the chart's names if the configuration has none", async () => {
    assert.deepEqual(await addressesOf({ enabled: true }), BOTH);
  });

  for (const section of [undefined, {}, { enabled: false }])
    test(`are none with ${JSON.stringify(section)}`, async () => assert.deepEqual(await addressesOf(section), []));
});
