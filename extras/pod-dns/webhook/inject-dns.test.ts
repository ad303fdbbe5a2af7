import assert from "node:assert/strict";
import { test } from "node:test";
import { planInjection } from "#hostmap/inject.ts";
import { DNS_REVISION, holdsResolvers, isByDns } from "#hostmap/pod-dns-marks.ts";
import { createSelector, MAX_WARNING } from "#hostmap/pod-selection.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { fc } from "#test/property.ts";
import { readPod } from "#webhook/admitted-pod.ts";
import type { PodDnsSetup } from "./dns-config.ts";
import { type DnsInjection, type PodResolution, planDnsInjection, withoutResolvers } from "./inject-dns.ts";

const SETUP: PodDnsSetup = {
  resolvers: ["10.96.0.11", "10.96.0.12"],
  cluster: {
    servers: ["10.96.0.10"],
    domain: "cluster.local",
    nodeSearches: [],
    options: [{ name: "ndots", value: "5" }],
  },
};
const MOVED: PodDnsSetup = { ...SETUP, resolvers: ["10.96.0.21", "10.96.0.22"] };
const PLAIN: PodResolution = {
  ...readPod({ metadata: {}, spec: {} }),
  namespace: "shop",
  hostNetwork: false,
  dnsPolicy: "ClusterFirst",
  dnsConfig: undefined,
};
const names = ["a.example.com", "b.example.com"];
const selected = createSelector(
  publishedMapOf("r", new Map(names.map((name) => [name, ["198.51.100.9"]]))),
  500,
)(undefined);

const dns = (pod: PodResolution, setup = SETUP): DnsInjection => {
  const plan = planDnsInjection(pod, setup);
  assert.ok(!("code" in plan), JSON.stringify(plan));
  return plan;
};
const hosts = (pod: PodResolution): DnsInjection => ({
  ...planInjection(pod.hostAliases, pod.annotations, selected),
  dns: withoutResolvers(pod),
});

/** The pod after the injection, as a second pass sees it. */
function applied(pod: PodResolution, { userAliases, managed, dns: change }: DnsInjection): PodResolution {
  const { "switchback.dev/resolvers": _gone, ...annotations } = pod.annotations;
  return {
    ...pod,
    hostAliases: [...userAliases, ...managed.aliases],
    annotations: { ...annotations, ...managed.annotations },
    ...(change === "restore" && { dnsPolicy: "ClusterFirst", dnsConfig: undefined }),
    ...(change !== undefined && change !== "restore" && { dnsPolicy: "None", dnsConfig: change.set }),
  };
}

const alias: fc.Arbitrary<HostAlias> = fc.record({
  ip: fc.constantFrom("198.51.100.9", "203.0.113.7"),
  hostnames: fc.array(fc.constantFrom(...names, "mine.example.com"), { minLength: 1, maxLength: 3 }),
});
const pods: fc.Arbitrary<PodResolution> = fc
  .record({
    hostAliases: fc.array(alias, { maxLength: 4 }),
    namespace: fc.constantFrom("shop", "a", "n".repeat(63)),
    dnsPolicy: fc.constantFrom(undefined, "ClusterFirst"),
    dnsConfig: fc.constantFrom(undefined, {}, { nameservers: [], searches: null }),
    annotations: fc.constantFrom<Record<string, string>>({}, { note: "x" }, { "switchback.dev/hosts": " * " }),
  })
  .map((pod) => ({ ...PLAIN, ...pod }));

test("a pod gets the resolvers, the matching annotations, and no alias of ours", () => {
  const plan = dns(PLAIN);
  assert.deepEqual(plan.managed.aliases, []);
  assert.deepEqual(plan.managed.annotations, {
    "switchback.dev/injected": "every name, by pod DNS at 10.96.0.11 10.96.0.12",
    "switchback.dev/revision": "dns",
    "switchback.dev/owned": "none",
    "switchback.dev/resolvers": "10.96.0.11 10.96.0.12",
  });
  const after = applied(PLAIN, plan);
  assert.deepEqual([after.dnsPolicy, after.dnsConfig?.nameservers], ["None", SETUP.resolvers]);
  assert.ok(
    holdsResolvers("None", SETUP.resolvers, after.annotations) && isByDns(after.annotations["switchback.dev/revision"]),
  );
});

test("pod DNS adds less than 1 KB to a pod", () => {
  const { managed, dns: change } = dns(PLAIN);
  assert.ok(JSON.stringify([managed, change]).length < 1_024);
});

test("after any passes, with other resolvers or hostAliases, the result is that of the last pass alone", () => {
  const step = fc.constantFrom(
    (pod: PodResolution) => dns(pod),
    (pod: PodResolution) => dns(pod, MOVED),
    hosts,
  );
  fc.assert(
    fc.property(pods, fc.array(step, { maxLength: 4 }), step, (pod, steps, last) => {
      const before = steps.reduce((each, plan) => applied(each, plan(each)), pod);
      const once = applied(pod, last(pod));
      const isBare = (config: PodResolution["dnsConfig"]) => Object.values(config ?? {}).every((list) => !list?.length);
      const shape = (each: PodResolution) => ({
        ...each,
        dnsPolicy: each.dnsPolicy ?? "ClusterFirst",
        dnsConfig: isBare(each.dnsConfig) ? undefined : each.dnsConfig,
      });
      assert.deepEqual(shape(applied(before, last(before))), shape(once));
      const again = last(once);
      assert.equal(again.dns, undefined, "a second pass changes nothing");
    }),
  );
});

test("the user's aliases stay", () => {
  fc.assert(
    fc.property(pods, (pod) => {
      assert.deepEqual(dns(pod).userAliases, pod.hostAliases);
      const injected = applied(pod, hosts(pod));
      assert.deepEqual(dns(injected).userAliases, pod.hostAliases);
    }),
  );
});

for (const [code, more] of [
  ["dns-not-possible", { hostNetwork: true }],
  ["dns-not-possible", { dnsPolicy: "Default" }],
  ["dns-not-possible", { dnsPolicy: "None", dnsConfig: { nameservers: ["192.0.2.53"] } }],
  ["dns-not-possible", { dnsPolicy: "ClusterFirstWithHostNet" }],
  ["dns-not-possible", { dnsConfig: { options: [{ name: "ndots", value: "2" }] } }],
  ["dns-not-possible", { dnsConfig: { searches: ["corp.example"] } }],
  ["dns-not-possible", { annotations: { "switchback.dev/hosts": "a.example.com" } }],
  ["dns-not-possible", { namespace: "" }],
] as const) {
  test(`a pod with ${JSON.stringify(more)} keeps what it has: ${code}`, () => {
    const pod = { ...PLAIN, ...more };
    const reason = planDnsInjection(pod, SETUP);
    assert.ok("code" in reason);
    assert.equal(reason.code, code);
    assert.ok(reason.text.length <= MAX_WARNING);
    assert.equal(withoutResolvers(pod), undefined);
  });
}

test("while the resolvers cannot be used, a pod gets hostAliases and loses our resolvers", () => {
  const text = `the Service ${"x".repeat(200)} has no address`;
  const reason = planDnsInjection(PLAIN, { code: "dns-not-ready", text });
  assert.ok("code" in reason);
  assert.equal(reason.code, "dns-not-ready");
  assert.match(reason.text, /^switchback\.dev\/via: hostAliases instead: the Service x+$/);
  assert.equal(reason.text.length, MAX_WARNING);
  assert.equal(withoutResolvers(applied(PLAIN, dns(PLAIN))), "restore");
});

test("a dnsConfig is ours only if the annotation has its nameservers and the policy is None", () => {
  const annotations = { "switchback.dev/resolvers": "10.96.0.11 10.96.0.12" };
  for (const more of [
    { dnsPolicy: "None", dnsConfig: { nameservers: ["192.0.2.53"] } },
    { dnsPolicy: "None", dnsConfig: { nameservers: [...SETUP.resolvers, "192.0.2.53"] } },
    { dnsPolicy: "ClusterFirst", dnsConfig: { nameservers: SETUP.resolvers } },
    { dnsPolicy: "None", dnsConfig: undefined },
  ]) {
    const pod = { ...PLAIN, annotations, ...more };
    assert.equal(withoutResolvers(pod), undefined);
  }
  assert.equal(holdsResolvers("None", SETUP.resolvers, {}), false);
});

test("options that somebody changed after the injection stay", () => {
  const pod = applied(PLAIN, dns(PLAIN));
  const changed = { ...pod, dnsConfig: { ...pod.dnsConfig, options: [{ name: "ndots", value: "2" }] } };
  assert.equal(dns(changed).dns, undefined);
});

test("after an injection of hostAliases, a pod no longer counts as always current", () => {
  const pod = applied(PLAIN, dns(PLAIN));
  const { managed } = planInjection(pod.hostAliases, pod.annotations, selected);
  assert.notEqual(managed.annotations["switchback.dev/revision"], DNS_REVISION);
});
