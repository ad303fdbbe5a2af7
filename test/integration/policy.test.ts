import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { NameStatus } from "#controller/status.ts";
import { type DnsServer, ipv4Answers, startDnsServer } from "#test/fakes/dns-server.ts";
import { ingress, namespaceYaml } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// What a tenant must not be able to do by writing an Ingress, on a real API server with the policy of a shared cluster.

const QUOTA = 50;
const LB = "203.0.113.9";
/** Two targets by class, so that a test sees where a name leads. */
const TARGETS = [
  {
    name: "ingress-nginx",
    upstream: { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } },
    classes: ["nginx"],
  },
  { name: "other", upstream: { service: { namespace: "edge", name: "other" } }, classes: ["other"] },
];
const POLICY = {
  maxNamesPerNamespace: QUOTA,
  claims: [
    { namespaces: ["platform"], domains: ["*"] },
    { namespaces: ["*"], domains: ["*.open.example.com"] },
  ],
  namespaceAnnotation: true,
  requireAdmitted: true,
  verifyDns: "warn",
};

let system: System;
let dns: DnsServer;
const records = new Map<string, string>();
before(async () => {
  dns = await startDnsServer(ipv4Answers(records));
  const map = { vanishSeconds: 0, guardHoldSeconds: 0 };
  const policy = { ...POLICY, dnsServers: [dns.address] };
  system = await startSystem({ values: { config: { targets: TARGETS, policy, map, clusterDomain: "cozy.example" } } });
  await system.apply(["platform", "tenant", "other", "greedy"].map((name) => namespaceYaml(name)).join(""));
  await system.kubectl("annotate", "namespace", "tenant", "switchback.dev/domains=*.tenant.example.com");
});
after(async () => {
  await system?.stop();
  dns?.close();
});

/** Creates an Ingress that its controller has admitted, unless `admitted` is false. */
async function claim(
  name: string,
  namespace: string,
  hosts: readonly string[],
  { admitted = true, className = "nginx" } = {},
): Promise<void> {
  await system.apply(ingress(name, hosts, { namespace, className }));
  if (admitted) await admit(name, namespace);
}

async function admit(name: string, namespace: string): Promise<void> {
  const patch = JSON.stringify({ status: { loadBalancer: { ingress: [{ ip: LB }] } } });
  await system.kubectl("-n", namespace, "patch", "ingress", name, "--subresource=status", "--type=merge", "-p", patch);
}

async function claimsOf(host: string): Promise<readonly NameStatus[]> {
  return (await (await system.leader()).status()).names.filter(({ name }) => name === host);
}

async function refused(host: string, code: string, from?: string): Promise<void> {
  let seen: unknown;
  await until(`${host} to be refused: ${code}`, async () => {
    const found = (await claimsOf(host)).filter((each) => from === undefined || each.from.namespace === from);
    seen = found.map(({ reason }) => reason?.code);
    return found.length > 0 && found.every(({ reason }) => reason?.code === code);
  }).catch((error) => assert.fail(`${error.message}: ${JSON.stringify(seen)}`));
}

/** Waits until the name has the addresses of a target's front Service. */
async function leadsTo(host: string, target: string): Promise<void> {
  const service = ["-n", NAMESPACE, "get", "service", `switchback-${target}`];
  await until(`${host} to lead to ${target}`, async () => {
    const { spec } = await system.json<{ spec: { clusterIPs: string[] } }>(...service);
    return (await system.published()).get(host)?.join() === spec.clusterIPs.join();
  });
}

const isMapped = (host: string) => until(`${host} to be mapped`, async () => (await system.published()).has(host));

describe("a tenant", () => {
  it("does not get the ACME servers' names, even if the policy allows it all names", async () => {
    const hosts = ["acme-v02.api.letsencrypt.org", "*.letsencrypt.org"];
    await claim("acme", "platform", hosts);
    for (const host of hosts) await refused(host, "name-protected");
  });

  it("does not get names of the cluster's DNS", async () => {
    const hosts = ["kubernetes.default.svc", "kubernetes.default", "kubernetes.default.svc.cozy.example"];
    await claim("cluster", "platform", hosts);
    for (const host of hosts) await refused(host, "name-protected");
  });

  it("gets the names that its namespace's annotation lists and that all may claim, and no others", async () => {
    const hosts = ["a.tenant.example.com", "x.open.example.com", "shop.example.com", "other.example.com"];
    await claim("own", "tenant", hosts);
    for (const host of hosts.slice(0, 2)) await isMapped(host);
    for (const host of hosts.slice(2)) await refused(host, "claim-not-allowed");
    await claim("stolen", "other", ["b.tenant.example.com"]);
    await refused("b.tenant.example.com", "claim-not-allowed");
  });

  it("does not get a name that another namespace has already, even if the policy allows it", async () => {
    const name = "www.open.example.com";
    await claim("first", "platform", [name]);
    await leadsTo(name, "ingress-nginx");
    await system.aged("platform", "ingress/first");
    // If both were equally old, this Ingress would get the name.
    await claim("second", "other", [name], { className: "other" });
    await refused(name, "conflict", "other");
    await leadsTo(name, "ingress-nginx");
    await system.kubectl("-n", "platform", "delete", "ingress", "first");
    await leadsTo(name, "other");
  });

  it("cannot fill the map: of 10,000 longest names its quota is mapped, and others' names still are", async () => {
    const label = "n".repeat(59);
    const long = (index: number) =>
      `${[0, 1, 2].map(() => label).join(".")}.l${String(index).padStart(5, "0")}${"x".repeat(50)}.open.example.com`;
    assert.equal(long(0).length, 253);
    // More than 500 names in one Ingress are too many for the annotation that kubectl writes.
    for (let batch = 0; batch < 20; batch += 1) {
      const hosts = Array.from({ length: 500 }, (_, index) => long(batch * 500 + index));
      await claim(`greedy-${batch}`, "greedy", hosts);
    }
    await until(
      "the quota's worth of names",
      async () => {
        return [...(await system.published()).keys()].filter((name) => name.startsWith(label)).length === QUOTA;
      },
      60_000,
    );
    await claim("after", "platform", ["after.example.com"]);
    await isMapped("after.example.com");
    await system.kubectl("-n", "greedy", "delete", "ingress", "--all");
  });

  it("waits until a controller has admitted its Ingress", async () => {
    await claim("bait", "tenant", ["bait.tenant.example.com"], { admitted: false });
    await refused("bait.tenant.example.com", "not-admitted");
    await admit("bait", "tenant");
    await isMapped("bait.tenant.example.com");
  });
});

describe("a namespace's annotation", () => {
  it("changes what is mapped, without a change of any Ingress", async () => {
    await system.kubectl("annotate", "namespace", "other", "switchback.dev/domains=b.tenant.example.com");
    await isMapped("b.tenant.example.com");
    await system.kubectl("annotate", "namespace", "other", "switchback.dev/domains-");
    await refused("b.tenant.example.com", "claim-not-allowed", "other");
    await until("the name to leave", async () => !(await system.published()).has("b.tenant.example.com"));
  });
});

describe("the cluster's DNS", () => {
  it("flags names that it resolves to other addresses; with warn they are still mapped", async () => {
    records.set("here.example.com", LB);
    records.set("elsewhere.example.com", "198.51.100.1");
    await claim("dns", "platform", ["here.example.com", "elsewhere.example.com"]);
    for (const host of ["here.example.com", "elsewhere.example.com"]) await isMapped(host);
    await until(
      "the warning",
      async () => (await claimsOf("elsewhere.example.com"))[0]?.warning?.code === "dns-elsewhere",
    );
    await until("the other's answer", async () => ((await claimsOf("here.example.com"))[0]?.resolved ?? []).length > 0);
    assert.equal((await claimsOf("here.example.com"))[0]?.warning, undefined);
    const { warnings } = await (await system.leader()).status();
    assert.ok(warnings.some(({ code }) => code === "dns-elsewhere"));
  });

  it("with enforce holds names back until it leads them to their target; no stray Ingress takes one", async () => {
    const policy = { verifyDns: "enforce", dnsServers: [dns.address] };
    await system.install({
      config: {
        targets: TARGETS,
        policy,
        map: { vanishSeconds: 0, guardHoldSeconds: 0 },
        clusterDomain: "cozy.example",
      },
    });
    await system.end(await system.leader(), "SIGTERM");
    await system.start("controller");
    await refused("elsewhere.example.com", "dns-elsewhere");
    await until("the stray name to leave", async () => !(await system.published()).has("elsewhere.example.com"));
    await isMapped("here.example.com");
    await claim("new", "platform", ["new.example.com"]);
    await refused("new.example.com", "dns-absent");
    records.set("newer.example.com", LB);
    await claim("newer", "platform", ["newer.example.com"]);
    await isMapped("newer.example.com");
  });
});
