import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { DNS_HEALTH_NAME } from "../../hostmap/dns-health-name.ts";
import { type DnsServer, ipv4, NO_ERROR, NO_NAME, startDnsServer, TYPE_A } from "../fakes/dns-server.ts";
import { ingress, mapped, namespaceYaml, type Pod, type PodParts, podObject } from "./objects.ts";
import { NAMESPACE, type System, startSystem, sumOf, until } from "./system.ts";

// Pods that ask for pod DNS, on a real API server. The cluster's DNS and the two resolvers are servers on addresses of the loopback that
// no other test process has, since pods know port 53 alone.

const addressOf = (first: number) =>
  `127.${first + ((process.pid >> 16) & 31)}.${(process.pid >> 8) & 255}.${process.pid & 255}`;
const [A, B] = [addressOf(128), addressOf(160)] as const;
const SERVICES: Readonly<Record<string, string>> = {
  [`switchback-dns-a.${NAMESPACE}.svc.cluster.local`]: A,
  [`switchback-dns-b.${NAMESPACE}.svc.cluster.local`]: B,
};
const RESOLV_CONF = (
  server: string,
) => `search ${NAMESPACE}.svc.cluster.local svc.cluster.local cluster.local corp.example
nameserver ${server}
options ndots:5 edns0
`;

interface DnsPod extends Pod {
  spec: Pod["spec"] & {
    readonly dnsPolicy: string;
    readonly dnsConfig?: {
      readonly nameservers?: string[];
      readonly searches?: string[];
      readonly options?: ReadonlyArray<{ readonly name: string; readonly value?: string }>;
    };
  };
}

/** Their pods do not run here: there are no nodes. */
const RESOLVERS = { enabled: true, image: "registry.example.com/coredns:1" };

let system: System;
const servers: DnsServer[] = [];
const silent = new Set<string>();
const folder = mkdtempSync(join(tmpdir(), "switchback-pod-dns-"));

/** Port 53 takes a right that not everybody has who runs the tests. */
const canListen = await startDnsServer(() => NO_NAME, A, 53).then(
  (server) => {
    server.close();
    return true;
  },
  () => false,
);
const skip = canListen ? false : "port 53 cannot be bound here";

async function startResolvers(): Promise<void> {
  for (const address of [A, B]) {
    const answer = (name: string, type: number) => {
      if (silent.has(address)) return undefined;
      return name === DNS_HEALTH_NAME && type === TYPE_A ? ipv4("127.0.0.1") : NO_NAME;
    };
    servers.push(await startDnsServer(answer, address, 53));
  }
  const clusterDns = await startDnsServer((name, type) => {
    const address = SERVICES[name];
    if (address === undefined) return NO_NAME;
    return type === TYPE_A ? ipv4(address) : NO_ERROR;
  });
  servers.push(clusterDns);
  writeFileSync(join(folder, "resolv.conf"), RESOLV_CONF(clusterDns.address));
}

/** Creates a pod; what the API server answered, and its warnings. */
async function create(namespace: string, name: string, parts: PodParts = {}, spec: object = {}) {
  const object = podObject(namespace, name, parts) as { readonly spec: object };
  const input = JSON.stringify({ ...object, spec: { ...object.spec, ...spec } });
  const { code, stdout, stderr } = await system.cluster.tool("kubectl", ["create", "-f", "-", "-o", "json"], { input });
  assert.equal(code, 0, stderr);
  return { pod: JSON.parse(stdout) as DnsPod, warnings: stderr };
}

async function metric(line: string): Promise<number> {
  const [webhook] = system.webhooks;
  assert.ok(webhook);
  return sumOf((await webhook.page("/metrics")).text, line);
}

const usable = (value: number) =>
  until(`pod DNS to be ${value === 1 ? "used" : "unused"}`, async () => {
    return (await metric("switchback_webhook_pod_dns_usable")) === value;
  });

/**
 * Creates a pod while pod DNS is used. On a busy machine a check may fail at any moment, and a pod gets hostAliases then: another one is
 * created.
 */
async function createWhenUsed(namespace: string, name: string, parts: PodParts = {}, spec: object = {}) {
  for (let count = 1; ; count += 1) {
    const created = await create(namespace, `${name}-${count}`, parts, spec);
    if (!/hostAliases instead: (switchback-dns|the resolvers)/.test(created.warnings)) return created;
    await usable(1);
  }
}

const NAMES = ["api.example.com", "shop.example.com"];

describe("pod DNS on a real API server", { skip }, () => {
  before(async () => {
    await startResolvers();
    const podDns = { resolvConf: join(folder, "resolv.conf") };
    system = await startSystem({ values: { podDns: RESOLVERS, config: { podDns } } });
    const via = (name: string, value: string) =>
      namespaceYaml(name, "enabled").replace('"enabled"', `"enabled", switchback.dev/via: "${value}"`);
    await system.apply(
      `${ingress("shop", NAMES)}\n${namespaceYaml("plain")}${namespaceYaml("opted", "enabled")}${via("by-dns", "dns")}${via("by-hosts", "hosts")}`,
    );
    await system.ready(NAMES);
    await usable(1);
  });
  after(async () => {
    await system?.stop();
    for (const server of servers) server.close();
    rmSync(folder, { recursive: true, force: true });
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

  it("a namespace's label, and a pod's own before it, decide; the install's default is hostAliases", async () => {
    assertByDns(await createWhenUsed("by-dns", "one"), "by-dns");
    assertByDns(await createWhenUsed("opted", "own", { labels: { [VIA]: "dns" } }), "opted");
    assertByDns(await createWhenUsed("plain", "own", { labels: { [INJECT]: "enabled", [VIA]: "dns" } }), "plain");
    assertByHosts(await createWhenUsed("opted", "default"));
    assertByHosts(await createWhenUsed("by-dns", "other", { labels: { [VIA]: "hosts" } }));
    assertByHosts(await createWhenUsed("by-hosts", "one"));
  });

  it("a pod that did not opt in is left alone, whatever it says", async () => {
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

  it("a pod that is created from another's manifest is given its own namespace's search list", async () => {
    const { pod } = await createWhenUsed("by-dns", "template");
    const { dnsPolicy, dnsConfig } = pod.spec;
    const copy = { annotations: pod.metadata.annotations ?? {}, labels: { [VIA]: "dns" } };
    assertByDns(await createWhenUsed("opted", "copy", copy, { dnsPolicy, dnsConfig }), "opted");
    const back = { annotations: copy.annotations, labels: { [VIA]: "hosts" } };
    const restored = await createWhenUsed("opted", "back", back, { dnsPolicy, dnsConfig });
    assertByHosts(restored);
    assert.equal(restored.pod.spec.dnsConfig, undefined);
  });

  it("while one resolver does not answer, new pods get hostAliases with a warning, and later pods the resolvers again", async () => {
    silent.add(B);
    await usable(0);
    const created = await create("by-dns", "meanwhile");
    assertByHosts(created);
    assert.match(created.warnings, /^Warning: switchback\.dev\/via: hostAliases instead: switchback-dns-[ab]\./);
    assert.ok((await metric('switchback_webhook_warnings_total{code="dns-not-ready"}')) > 0);
    const [webhook] = system.webhooks;
    const ready = await webhook?.page("/readyz");
    assert.equal(ready?.status, 200, "the webhook serves on");
    assert.match(ready?.text ?? "", /\[\+\] pod DNS: not used \(dns-not-ready: /);
    silent.clear();
    await usable(1);
    assertByDns(await createWhenUsed("by-dns", "again"), "by-dns");
  });

  it("with the install's default dns, the label hosts of a namespace decides against it", async () => {
    const podDns = { resolvConf: join(folder, "resolv.conf") };
    await system.install({ podDns: RESOLVERS, config: { podDns, pods: { via: "dns" } } });
    const [before] = system.webhooks;
    assert.ok(before);
    await system.start("webhook");
    await system.end(before);
    await usable(1);
    // The controller writes the caBundle of entries that are new.
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
