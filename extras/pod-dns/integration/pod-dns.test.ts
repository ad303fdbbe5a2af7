import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ingress, mapped, namespaceYaml, type PodParts, podObject } from "#test/integration/objects.ts";
import { type System, startSystem, until, webhookMetric } from "#test/integration/system.ts";
import { A, B, type DnsPod, PodDnsRig, usable, viaNamespace, whyNot } from "./pod-dns-rig.ts";

// New pods that ask for pod DNS, on a real API server.

let system: System;
const rig = new PodDnsRig();
const skip = await whyNot();

/** Creates a pod. Returns the API server's answer and its warnings. */
async function create(namespace: string, name: string, parts: PodParts = {}, spec: object = {}) {
  const object = podObject(namespace, name, parts) as { readonly spec: object };
  const input = JSON.stringify({ ...object, spec: { ...object.spec, ...spec } });
  const { code, stdout, stderr } = await system.cluster.tool("kubectl", ["create", "-f", "-", "-o", "json"], { input });
  assert.equal(code, 0, stderr);
  return { pod: JSON.parse(stdout) as DnsPod, warnings: stderr };
}

/**
 * Creates a pod while pod DNS is used. On a busy machine, a check may fail at any moment, and the pod then gets
 * hostAliases. In that case, creates another pod.
 */
async function createWhenUsed(namespace: string, name: string, parts: PodParts = {}, spec: object = {}) {
  for (let count = 1; ; count += 1) {
    const created = await create(namespace, `${name}-${count}`, parts, spec);
    if (!/hostAliases instead: (switchback-dns|the resolvers)/.test(created.warnings)) return created;
    await usable(system, 1);
  }
}

const NAMES = ["api.example.com", "shop.example.com"];

describe("pod DNS on a real API server", { skip }, () => {
  before(async () => {
    await rig.start();
    system = await startSystem({ values: rig.values() });
    const namespaces = [namespaceYaml("plain"), namespaceYaml("opted", "enabled")];
    const labelled = [viaNamespace("by-dns", "dns"), viaNamespace("by-hosts", "hosts")];
    await system.apply([`${ingress("shop", NAMES)}\n`, ...namespaces, ...labelled].join(""));
    await system.ready(NAMES);
    await usable(system, 1);
  });
  after(async () => {
    await system?.stop();
    rig.stop();
  });

  function assertByDns({ pod, warnings }: Awaited<ReturnType<typeof create>>, namespace: string): void {
    assert.equal(warnings, "");
    assert.equal(pod.spec.dnsPolicy, "None");
    assert.deepEqual(pod.spec.dnsConfig, {
      nameservers: [A, B],
      searches: [`${namespace}.svc.cluster.local`, "svc.cluster.local", "cluster.local", "corp.example"],
      options: [
        { name: "ndots", value: "5" },
        { name: "edns0" },
        { name: "timeout", value: "1" },
        { name: "attempts", value: "2" },
      ],
    });
    assert.equal(pod.spec.hostAliases, undefined);
    assert.equal(pod.metadata.annotations?.["switchback.dev/revision"], "dns");
  }

  function assertByHosts({ pod }: Awaited<ReturnType<typeof create>>, dnsPolicy = "ClusterFirst"): void {
    assert.deepEqual(mapped(pod), NAMES);
    assert.equal(pod.spec.dnsPolicy, dnsPolicy);
    assert.equal(pod.metadata.annotations?.["switchback.dev/resolvers"], undefined);
  }

  const VIA = "switchback.dev/via";
  const INJECT = "switchback.dev/inject";

  it("the label of the pod decides, then its namespace's; the default of the install is hostAliases", async () => {
    assertByDns(await createWhenUsed("by-dns", "one"), "by-dns");
    assertByDns(await createWhenUsed("opted", "own", { labels: { [VIA]: "dns" } }), "opted");
    assertByDns(await createWhenUsed("plain", "own", { labels: { [INJECT]: "enabled", [VIA]: "dns" } }), "plain");
    assertByHosts(await createWhenUsed("opted", "default"));
    assertByHosts(await createWhenUsed("by-dns", "other", { labels: { [VIA]: "hosts" } }));
    assertByHosts(await createWhenUsed("by-hosts", "one"));
  });

  it("a pod that did not opt in is left alone, even with the label", async () => {
    const { pod } = await createWhenUsed("plain", "none", { labels: { [VIA]: "dns" } });
    assert.deepEqual([pod.spec.dnsPolicy, pod.metadata.annotations], ["ClusterFirst", undefined]);
  });

  for (const [code, name, spec, policy] of [
    ["uses the host's network", "host-network", { hostNetwork: true }, "ClusterFirst"],
    ["its dnsPolicy is not ClusterFirst", "policy", { dnsPolicy: "Default" }, "Default"],
    ["dnsConfig of its own", "config", { dnsConfig: { options: [{ name: "ndots", value: "2" }] } }, "ClusterFirst"],
  ] as const) {
    it(`a pod keeps what it has, with a warning: ${code}`, async () => {
      const created = await createWhenUsed("by-dns", name, {}, spec);
      assertByHosts(created, policy);
      assert.match(created.warnings, new RegExp(`^Warning: switchback\\.dev/via: hostAliases instead: .*${code}`));
      assert.deepEqual(created.pod.spec.dnsConfig, "dnsConfig" in spec ? spec.dnsConfig : undefined);
    });
  }

  it("a pod that is created from another pod's manifest gets its own namespace's search list", async () => {
    const { pod } = await createWhenUsed("by-dns", "template");
    const { dnsPolicy, dnsConfig } = pod.spec;
    const copy = { annotations: pod.metadata.annotations ?? {}, labels: { [VIA]: "dns" } };
    assertByDns(await createWhenUsed("opted", "copy", copy, { dnsPolicy, dnsConfig }), "opted");
    const back = { annotations: copy.annotations, labels: { [VIA]: "hosts" } };
    const restored = await createWhenUsed("opted", "back", back, { dnsPolicy, dnsConfig });
    assertByHosts(restored);
    assert.equal(restored.pod.spec.dnsConfig, undefined);
  });

  it("while a resolver does not answer, new pods get hostAliases with a warning, then resolvers again", async () => {
    rig.silent.add(B);
    await usable(system, 0);
    const created = await create("by-dns", "meanwhile");
    assertByHosts(created);
    assert.match(created.warnings, /^Warning: switchback\.dev\/via: hostAliases instead: switchback-dns-[ab]\./);
    assert.ok((await webhookMetric(system, 'switchback_webhook_warnings_total{code="dns-not-ready"}')) > 0);
    const [webhook] = system.webhooks;
    const ready = await webhook?.page("/readyz");
    assert.equal(ready?.status, 200, "the webhook serves on");
    rig.silent.clear();
    await usable(system, 1);
    assertByDns(await createWhenUsed("by-dns", "again"), "by-dns");
  });

  it("if the default of the install is `dns`, a namespace's label `hosts` overrides it", async () => {
    await system.install(rig.values({ pods: { via: "dns" } }));
    const [before] = system.webhooks;
    assert.ok(before);
    await system.start("webhook");
    await system.end(before);
    await usable(system, 1);
    // The controller first has to write the caBundle of new entries.
    let count = 0;
    await until("both entries to be called", async () => {
      count += 1;
      const created = await Promise.all(["opted", "by-hosts"].map((namespace) => create(namespace, `early-${count}`)));
      return created.every(({ pod }) => pod.metadata.annotations !== undefined);
    });
    assertByDns(await createWhenUsed("opted", "by-default"), "opted");
    assertByHosts(await createWhenUsed("by-hosts", "two"));
  });
});
