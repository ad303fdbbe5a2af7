import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { examine } from "#doctor/checks.ts";
import { known } from "#doctor/fact.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { install, services } from "#test/fakes/doctor-changes.ts";
import { HEALTHY, NAMESPACE, NGINX } from "#test/fakes/doctor-facts.ts";
import { checkResolvers } from "./check.ts";
import { POD_DNS_SECTION } from "./config.ts";

interface PodDnsChange {
  readonly enabled?: boolean;
  /** Which of the Services `a` and `b` exist. */
  readonly services?: readonly string[];
  /** Ready pods of the second resolver. */
  readonly ready?: number;
  /** The resolvers of a pod. */
  readonly held?: string;
}

const RESOLVERS: Readonly<Record<string, string>> = { a: "10.96.0.11", b: "10.96.0.12" };

/** Pod DNS with a pod that uses it. */
function podDns({
  enabled = true,
  services: there = Object.keys(RESOLVERS),
  ready = 2,
  held = Object.values(RESOLVERS).join(" "),
}: PodDnsChange): Partial<ClusterFacts> {
  const service = (name: string) => ({
    ...NGINX,
    type: "ClusterIP",
    entries: [],
    namespace: NAMESPACE,
    name: `switchback-dns-${name}`,
    clusterIPs: [RESOLVERS[name] ?? ""],
  });
  const all = HEALTHY.install.deployments.known ? HEALTHY.install.deployments.value : [];
  const [template] = all;
  assert.ok(template !== undefined);
  const resolver = (name: string) => ({ ...template, name: `switchback-dns-${name}` });
  const dns = enabled ? [resolver("a"), { ...resolver("b"), ready }] : [];
  return {
    added: [checkResolvers],
    ...services(NGINX, ...there.map(service)),
    ...install({
      deployments: known([...all, ...dns]),
      config: known(parseConfig({ podDns: { enabled } }, [POD_DNS_SECTION])),
    }),
    pods: known([{ namespace: "shop", name: "web", labels: {}, annotations: { "switchback.dev/resolvers": held } }]),
  };
}

test("every finding about ready resolvers that pods use is ok", () => {
  const findings = examine({ ...HEALTHY, ...podDns({}) });
  assert.deepEqual([...new Set(findings.map(({ status }) => status))], ["ok"]);
  assert.ok(findings.some(({ code }) => code === "extra-works"));
});

const FAULTS: ReadonlyArray<readonly [what: string, change: Partial<ClusterFacts>, ...expected: string[]]> = [
  ["a resolver without a Service", podDns({ services: ["a"] }), "broken resolver-missing", "warning pod-resolver-lost"],
  ["a resolver that is not ready", podDns({ ready: 0 }), "broken deployment-not-ready"],
  ["a pod that has other resolvers", podDns({ held: "10.96.0.77 10.96.0.78" }), "broken pod-without-dns"],
  ["a pod that has one other resolver", podDns({ held: "10.96.0.11 10.96.0.78" }), "warning pod-resolver-lost"],
  ["pod DNS that ended before its pods", podDns({ enabled: false, services: [] }), "broken pod-without-dns"],
];

describe("one thing is wrong:", () => {
  for (const [what, change, ...expected] of FAULTS) {
    test(what, () => {
      const found = examine({ ...HEALTHY, ...change }).filter(({ status }) => status !== "ok");
      assert.deepEqual([...new Set(found.map(({ status, code }) => `${status} ${code}`))].sort(), [...expected].sort());
      assert.ok(found.every(({ cures }) => cures.length > 0));
    });
  }
});
