import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "#test/cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "#test/cluster/cluster.ts";
import { IMAGES } from "#test/cluster/images.ts";
import { withCluster } from "#test/cluster/whole.ts";
import { clusterTarget } from "#test/e2e/cluster-target.ts";
import { imageName, programCommand, RESOLVE, RESOLVE_MUSL } from "#test/e2e/programs/run.ts";
import { ingress, openShop, SHOP } from "#test/e2e/shop.ts";
import { frontAddresses, installSwitchback, publishedMap, resolvedLine, SYSTEM } from "#test/e2e/switchback.ts";

// The chart's two resolvers, and pods to which the webhook gives them: what each C library and Go resolve.

export const needs = ["node"];

const NAME = "exact.pod-dns.example.com";
const WILDCARD = "*.wild.pod-dns.example.com";
const BELOW = "any.wild.pod-dns.example.com";
const RESOLVERS = ["switchback-dns-a", "switchback-dns-b"];
const { className, image, target } = clusterTarget();
const BY_DNS = { "switchback.dev/inject": "enabled", "switchback.dev/via": "dns" };
const SERVICE = "kubernetes.default.svc.cluster.local";
const ASKED = [NAME, BELOW, SERVICE];
const CLIENTS = [
  { name: "glibc", of: imageName(), command: programCommand("client", RESOLVE, ...ASKED) },
  { name: "musl", of: IMAGES.muslClient, command: ["/client", ...RESOLVE_MUSL, ...ASKED] },
  { name: "go", of: IMAGES.goClient, command: ["/client", RESOLVE, ...ASKED] },
];

let cluster: Cluster;
let nameservers: string[];
let expected: string;
/** The DNS settings that the webhook gave to a pod. */
let dnsConfig: object;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  await installSwitchback(cluster, { podDns: { enabled: true, image: IMAGES.coredns } });
  await cluster.rolledOut(SYSTEM, ...RESOLVERS.map((name) => `deployment/${name}`));
  await cluster.apply(ingress("pod-dns", NAME, className), ingress("pod-dns-wild", WILDCARD, className));
  await cluster.until("the names are published", 60, async () => {
    const map = await publishedMap(cluster);
    return [NAME, WILDCARD].every((name) => map.includes(name)) || undefined;
  });
  const addressOf = (namespace: string, name: string) =>
    cluster.kubectl("-n", namespace, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}");
  nameservers = await Promise.all(RESOLVERS.map((name) => addressOf(SYSTEM, name)));
  const fronts = await frontAddresses(cluster, target);
  const kubernetes = resolvedLine(SERVICE, [await addressOf("default", "kubernetes")]);
  expected = [...[NAME, BELOW].map((name) => resolvedLine(name, fronts)), kubernetes].join("\n");
});
after(async () => {
  await cluster.delete(ingress("pod-dns", NAME, className), ingress("pod-dns-wild", WILDCARD, className));
  await installSwitchback(cluster, { podDns: { remove: true } });
});

for (const client of CLIENTS) {
  test(`a pod with the resolvers reaches a name, a wildcard and a Service of the cluster: ${client.name}`, async () => {
    await resolvesAll(podOf(client));
  });
}

test("without the first resolver, each client still resolves all names", async () => {
  const [first = ""] = RESOLVERS;
  await cluster.kubectl("-n", SYSTEM, "scale", `deployment/${first}`, "--replicas=0");
  await cluster.until("it has no endpoints", 60, async () => {
    const slices = ["-n", SYSTEM, "get", "endpointslices", "-l", `kubernetes.io/service-name=${first}`];
    return (
      (await cluster.kubectl(...slices, "-o", "jsonpath={.items[*].endpoints[*].addresses[0]}")) === "" || undefined
    );
  });
  // The webhook now gives new pods hostAliases. So these pods get the settings that an earlier pod has.
  for (const client of CLIENTS) await resolvesAll(podOf(client, dnsConfig));
});

test("an upgrade without `podDns.enabled` is refused, and does not delete the resolvers", async () => {
  await assert.rejects(installSwitchback(cluster), /podDns\.enabled: the Service switchback-dns-a exists/);
  for (const name of RESOLVERS) await cluster.kubectl("-n", SYSTEM, "get", "service", name);
});

/** A pod that opts in. With `resolvers`, a pod that has these DNS settings and does not opt in. */
function podOf({ name, of, command }: (typeof CLIENTS)[number], resolvers?: object): KubeObject {
  const container = { name: "main", image: of, imagePullPolicy: image.pullPolicy, command };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: SHOP, name: `pod-dns-${name}`, labels: resolvers === undefined ? BY_DNS : {} },
    spec: {
      ...(resolvers !== undefined && { dnsPolicy: "None", dnsConfig: resolvers }),
      restartPolicy: "Never",
      securityContext: RESTRICTED_POD,
      containers: [{ ...container, securityContext: RESTRICTED_CONTAINER }],
    },
  };
}

/**
 * Runs pods to their end until one prints what is expected. Resolvers may see the newest names only some time after
 * the map is published.
 */
async function resolvesAll(object: KubeObject): Promise<void> {
  const { name } = object.metadata as { name: string };
  await cluster.until(`${name} resolves all names`, 90, async () => {
    await cluster.delete(object);
    await cluster.apply(object);
    const { spec } = await cluster.get<{ spec: { dnsConfig?: { nameservers?: string[] } } }>("-n", SHOP, "pod", name);
    // A pod that is created while a check of the resolvers fails gets hostAliases.
    if (spec.dnsConfig?.nameservers?.join(" ") !== nameservers.join(" ")) return undefined;
    dnsConfig = spec.dnsConfig;
    await cluster.until(`${name} has ended`, 60, async () => {
      const phase = await cluster.kubectl("-n", SHOP, "get", "pod", name, "-o", "jsonpath={.status.phase}");
      return phase === "Succeeded" || phase === "Failed" || undefined;
    });
    const text = (await cluster.kubectl("-n", SHOP, "logs", name, "-c", "main")).trim();
    await cluster.delete(object);
    assert.equal(text, expected);
    return true;
  });
}
