import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { readPod } from "#webhook/admitted-pod.ts";
import { POD_DNS_SECTION } from "../config.ts";
import { podDnsBy, startPodDns } from "./delivery.ts";
import type { PodDnsSetup } from "./dns-config.ts";

const SETUP: PodDnsSetup = {
  resolvers: ["10.96.0.11", "10.96.0.12"],
  cluster: { servers: [], domain: "cluster.local", nodeSearches: [], options: [] },
};
const RESOLVERS = "switchback.dev/resolvers";
const NOT_READY = { code: "dns-not-ready", text: "why" };

/** What pod DNS does with a pod: `resolvers` is its annotation. */
function changed(
  isWanted: boolean,
  resolvers?: string,
  spec: object = {},
  setup: PodDnsSetup | typeof NOT_READY = SETUP,
) {
  const annotations = resolvers === undefined ? {} : { [RESOLVERS]: resolvers };
  const object = { metadata: { annotations }, spec };
  const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", namespace: "shop", object };
  return podDnsBy(() => setup)(request, readPod(object), isWanted);
}

test("each scrape shows whether pods get the resolvers: not where pod DNS is off or has none", async (t) => {
  for (const [enabled, code] of [
    [false, "dns-not-enabled"],
    [true, "dns-not-cluster-first"],
  ] as const) {
    const registry = new MetricsRegistry();
    const config = parseConfig({ podDns: { enabled, resolvConf: "/missing" } }, [POD_DNS_SECTION]);
    const { podDns, stop } = startPodDns(config, silentLogger, registry);
    t.after(stop);
    assert.match(registry.metrics(), /^switchback_webhook_pod_dns_usable 0$/m);
    const object = { metadata: {}, spec: {} };
    const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", namespace: "shop", object };
    const change = podDns(request, readPod(object), true);
    assert.ok("changes" in change);
    assert.deepEqual([change.problem?.code, change.changes], [code, []]);
  }
});

test("a pod gets the resolvers only if it should; the resolvers of an earlier pass are taken back", () => {
  const given = changed(true);
  assert.ok("changes" in given);
  assert.deepEqual(
    [given.given?.code, given.changes.map(({ path }) => path)],
    ["injected-dns", ["/spec/dnsPolicy", "/spec/dnsConfig"]],
  );
  assert.deepEqual(changed(false), { changes: [] });
  const dnsConfig = { nameservers: SETUP.resolvers };
  const back = [
    { op: "add", path: "/spec/dnsPolicy", value: "ClusterFirst" },
    { op: "remove", path: "/spec/dnsConfig" },
    { op: "remove", path: "/metadata/annotations/switchback.dev~1resolvers" },
  ];
  const resolved = { dnsPolicy: "None", dnsConfig };
  assert.deepEqual(changed(false, SETUP.resolvers.join(" "), resolved), { changes: back });
  const instead = changed(true, SETUP.resolvers.join(" "), resolved, NOT_READY);
  assert.ok("changes" in instead);
  assert.deepEqual([instead.changes, instead.problem?.code], [back, "dns-not-ready"]);
});

test("DNS fields are read only of a pod that should get the resolvers, or says that it has them", () => {
  const malformed = { dnsPolicy: 1 };
  assert.deepEqual(changed(false, undefined, malformed), { changes: [] });
  const refused = { code: "pod-malformed", text: "the pod cannot be read: spec.dnsPolicy: is not valid" };
  assert.deepEqual(changed(true, undefined, malformed), refused);
  assert.deepEqual(changed(false, "x", malformed), refused);
});
