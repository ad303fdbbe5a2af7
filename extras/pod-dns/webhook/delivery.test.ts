import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MetricsRegistry } from "#lib/telemetry/metrics.ts";
import { POD_DNS_SECTION } from "../config.ts";
import { deliveryBy, describe, startPodDns } from "./delivery.ts";
import type { PodDnsSetup } from "./dns-config.ts";

const SETUP: PodDnsSetup = {
  resolvers: ["10.96.0.11", "10.96.0.12"],
  cluster: { servers: [], domain: "cluster.local", nodeSearches: [], options: [] },
};

test("each scrape shows whether pods get the resolvers of pod DNS now", async () => {
  const registry = new MetricsRegistry();
  let isReady = false;
  deliveryBy(() => (isReady ? SETUP : { code: "dns-not-ready", text: "why" })).addMetrics(registry);
  const usable = async () => /^switchback_webhook_pod_dns_usable (\d)$/m.exec(await registry.metrics())?.[1];
  assert.equal(await usable(), "0");
  isReady = true;
  assert.equal(await usable(), "1");
});

test("if pod DNS is enabled, the webhook's readiness says whether it is used", async (t) => {
  const start = (enabled: boolean) =>
    startPodDns(parseConfig({ podDns: { enabled, resolvConf: "/missing" } }, [POD_DNS_SECTION]), silentLogger);
  const [off, on] = [start(false), start(true)];
  t.after(() => Promise.all([off.stop(), on.stop()]));
  assert.equal(off.readinessLine(), undefined);
  assert.match(on.readinessLine() ?? "", /^pod DNS: not used \(dns-not-cluster-first: \/missing cannot be read: /);
});

test("the readiness names the resolvers that pods get", () => {
  assert.equal(describe(SETUP), "pod DNS: 10.96.0.11 10.96.0.12");
});
