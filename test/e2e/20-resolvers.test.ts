import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setAlias, setText } from "../cluster/addons/internet.ts";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "../cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { IMAGES } from "../cluster/images.ts";
import { COREFILE } from "../cluster/node/coredns.ts";
import { FAMILIES } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { inClient, OPTED_IN, optIn } from "./opted-in.ts";
import { IMAGE_NAME, programCommand, RESOLVE, RESOLVE_MUSL } from "./programs/run.ts";
import { CLASS, ingress, NAME, resolvedPlainly, SHOP, TARGET } from "./shop.ts";
import { frontAddresses, publishedMap, resolvedLine } from "./switchback.ts";

// Three resolvers read the hosts files that the kubelet writes. Each has different limits for lines. Pods and settings
// that did not opt in are unchanged.

export const needs: string[] = [];

const COUNT = 300;
const NAMES = Array.from({ length: COUNT }, (_, n) => `shop-number-${String(n).padStart(3, "0")}.many.example.com`);
const ASKED = [NAMES[0], NAMES[COUNT / 2], NAMES[COUNT - 1]] as string[];
const GLIBC = container("main", IMAGE_NAME, programCommand(RESOLVE, ...ASKED));
const CASES = {
  go: { containers: [container("main", IMAGES.goClient, ["/client", RESOLVE, ...ASKED])] },
  musl: { containers: [container("main", IMAGES.muslClient, ["/client", ...RESOLVE_MUSL, ...ASKED])] },
  glibc: { containers: [GLIBC] },
  "host-network": { containers: [GLIBC], hostNetwork: true },
  "init-container": {
    initContainers: [GLIBC],
    containers: [container("after", IMAGE_NAME, programCommand("resolve", "localhost"))],
  },
};

let cluster: Cluster;
let expected: string;

before(async () => {
  cluster = await withCluster();
  await optIn(cluster);
  await cluster.apply(...manyIngresses());
  // Each name waits for its first answer from DNS, so the last name may be published before others.
  await cluster.until("the names are published", 60, async () => {
    const map = await publishedMap(cluster);
    return NAMES.every((name) => map.includes(name)) || undefined;
  });
  const fronts = await frontAddresses(cluster, TARGET);
  assert.equal(fronts.length, FAMILIES.length);
  expected = ASKED.map((name) => resolvedLine(name, fronts)).join("\n");
});

after(async () => {
  await cluster.delete(...manyIngresses());
});

for (const [name, spec] of Object.entries(CASES)) {
  test(`${name} resolves the first, the middle and the last of ${COUNT} injected names to the front`, async () => {
    const metadata = { namespace: OPTED_IN, name: `resolve-${name}` };
    const restricted = { restartPolicy: "Never", securityContext: RESTRICTED_POD, ...spec };
    assert.equal(await output({ apiVersion: "v1", kind: "Pod", metadata, spec: restricted }, metadata.name), expected);
  });
}

/** Runs a pod until it ends. Returns the output of its container `main`. */
async function output(pod: KubeObject, name: string): Promise<string> {
  await cluster.delete(pod);
  await cluster.apply(pod);
  await cluster.until(`${name} has ended`, 60, async () => {
    const phase = await cluster.kubectl("-n", OPTED_IN, "get", "pod", name, "-o", "jsonpath={.status.phase}");
    return phase === "Succeeded" || phase === "Failed" || undefined;
  });
  const text = await cluster.kubectl("-n", OPTED_IN, "logs", name, "-c", "main");
  await cluster.delete(pod);
  return text.trim();
}

function container(name: string, image: string, command: string[]): object {
  return { name, image, imagePullPolicy: "Never", command, securityContext: RESTRICTED_CONTAINER };
}

/** One rule for each name, in Ingresses of a size that people write. */
function manyIngresses(): KubeObject[] {
  return Array.from({ length: COUNT / 50 }, (_, n) => {
    const names = NAMES.slice(n * 50, (n + 1) * 50);
    const object = ingress(`many-${n}`, names[0] ?? "", CLASS);
    const spec = object.spec as { rules: { host: string }[] };
    const [rule] = spec.rules;
    spec.rules = names.map((host) => ({ ...rule, host }));
    return object;
  });
}

test("a pod that did not opt in resolves the name as before, to the load balancer", async () => {
  await cluster.kubectl("-n", SHOP, "rollout", "restart", "deployment/client");
  await cluster.rolledOut(SHOP, "deployment/client");
  assert.equal(await resolvedPlainly(cluster), resolvedLine(NAME, NGINX.addresses));
  const pods = await cluster.kubectl("-n", SHOP, "get", "pods", "-o", "yaml");
  assert.doesNotMatch(pods, /switchback\.dev|hostAliases/);
});

test("the configuration of the cluster's DNS is unchanged, byte for byte", async () => {
  const { data } = await cluster.get<{ data: unknown }>("-n", "kube-system", "configmap", "coredns");
  assert.deepEqual(data, { Corefile: COREFILE });
});

test("TXT and CNAME of a mapped name come from the public DNS, as DNS-01 needs them", async () => {
  const challenge = `_acme-challenge.${NAME}`;
  await setText(cluster, challenge, "token-of-dns-01");
  assert.deepEqual(JSON.parse(await inClient(cluster, "records", "TXT", challenge)), { TXT: [["token-of-dns-01"]] });
  await setAlias(cluster, `www.${NAME}`, "elsewhere.example.net");
  const alias = await inClient(cluster, "records", "CNAME", `www.${NAME}`);
  assert.deepEqual(JSON.parse(alias), { CNAME: ["elsewhere.example.net"] });
});
