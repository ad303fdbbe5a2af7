import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "../cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { IMAGES } from "../cluster/images.ts";
import { clusterTarget } from "./cluster-target.ts";
import { OPTED_IN, optIn } from "./opted-in.ts";
import { imageName, programCommand, RESOLVE, RESOLVE_MUSL } from "./programs/run.ts";
import { ingress } from "./shop.ts";
import { prepared } from "./stand-in.ts";
import { frontAddresses, publishedMap, resolvedLine } from "./switchback.ts";

// Three resolvers read the hosts files that the kubelet writes. Each has different limits for lines.

export const needs: string[] = [];

const COUNT = 300;
const NAMES = Array.from({ length: COUNT }, (_, n) => `shop-number-${String(n).padStart(3, "0")}.many.example.com`);
const ASKED = [NAMES[0], NAMES[COUNT / 2], NAMES[COUNT - 1]] as string[];

const { other, target, className, image } = clusterTarget();
const noImage = other !== undefined && "its image is not in a registry";
const GLIBC = {
  name: "glibc",
  image: imageName(),
  command: programCommand("client", RESOLVE, ...ASKED),
  skip: false,
};
const CLIENTS = [
  { name: "go", image: IMAGES.goClient, command: ["/client", RESOLVE, ...ASKED], skip: noImage },
  { name: "musl", image: IMAGES.muslClient, command: ["/client", ...RESOLVE_MUSL, ...ASKED], skip: noImage },
  GLIBC,
];

let cluster: Cluster;
let expected: string;

before(async () => {
  cluster = await prepared();
  await optIn(cluster);
  await cluster.apply(...manyIngresses());
  // Each name waits for its first answer from DNS, so the last name may be published before others.
  await cluster.until("the names are published", 60, async () => {
    const map = await publishedMap(cluster);
    return NAMES.every((name) => map.includes(name)) || undefined;
  });
  const fronts = await frontAddresses(cluster, target);
  expected = ASKED.map((name) => resolvedLine(name, fronts)).join("\n");
});

after(async () => {
  await cluster.delete(...manyIngresses());
});

for (const { name, image, command, skip } of CLIENTS) {
  test(`${name} resolves the first, the middle and the last of ${COUNT} injected names`, { skip }, async () => {
    assert.equal(await output(pod(`resolve-${name}`, { containers: [container("main", image, command)] })), expected);
  });
}

test("a pod on the node's network resolves them too", async () => {
  const spec = { hostNetwork: true, containers: [container("main", GLIBC.image, GLIBC.command)] };
  assert.equal(await output(pod("resolve-host-network", spec)), expected);
});

test("an init container resolves them too", async () => {
  const main = container("after", GLIBC.image, programCommand("client", "resolve", "localhost"));
  const spec = { initContainers: [container("main", GLIBC.image, GLIBC.command)], containers: [main] };
  assert.equal(await output(pod("resolve-init", spec)), expected);
});

/** Runs a pod until it ends. Returns the output of its container `main`. */
async function output(object: KubeObject): Promise<string> {
  const { name } = object.metadata as { name: string };
  await cluster.delete(object);
  await cluster.apply(object);
  await cluster.until(`${name} has ended`, 60, async () => {
    const phase = await cluster.kubectl("-n", OPTED_IN, "get", "pod", name, "-o", "jsonpath={.status.phase}");
    return phase === "Succeeded" || phase === "Failed" || undefined;
  });
  const text = await cluster.kubectl("-n", OPTED_IN, "logs", name, "-c", "main");
  await cluster.delete(object);
  return text.trim();
}

function pod(name: string, spec: object): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: OPTED_IN, name },
    spec: { restartPolicy: "Never", securityContext: RESTRICTED_POD, ...spec },
  };
}

function container(name: string, of: string, command: string[]): object {
  return { name, image: of, imagePullPolicy: image.pullPolicy, command, securityContext: RESTRICTED_CONTAINER };
}

/** One rule for each name, in Ingresses of a size that people write. */
function manyIngresses(): KubeObject[] {
  return Array.from({ length: COUNT / 50 }, (_, n) => {
    const names = NAMES.slice(n * 50, (n + 1) * 50);
    const object = ingress(`many-${n}`, names[0] ?? "", className);
    const spec = object.spec as { rules: { host: string }[] };
    const [rule] = spec.rules;
    spec.rules = names.map((host) => ({ ...rule, host }));
    return object;
  });
}
