import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { parse } from "yaml";
import { CLASS, envoyProxy, install, uninstall } from "../cluster/addons/envoy-gateway.ts";
import { ENVOY, ENVOY_OPTIONAL, publishAddress } from "../cluster/addons/load-balancers.ts";
import { service } from "../cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { createTestCa } from "../cluster/pki.ts";
import { withCluster } from "../cluster/whole.ts";
import {
  addressArrives,
  answered,
  answers,
  certificate,
  FOLLOWED_S,
  failsInside,
  foundWithoutUs,
  mapped,
  trustIsSeen,
  trustSetting,
  worksOutside,
} from "./gateways.ts";
import { clientAddresses, getMapped, inClient, optIn } from "./opted-in.ts";
import { programDeployment } from "./programs/run.ts";
import { getInside, openShop, SHOP } from "./shop.ts";
import { installSwitchback, publishedMap } from "./switchback.ts";
import type { Load } from "./unnoticed.ts";

// Envoy Gateway with its own Envoys, without annotations or configuration for Switchback. The proxies ask whether it
// expects a PROXY header.

export const needs = ["ipv4", "long", "envoy-gateway"];

const BY_ROUTE = "envoy.example.com";
const BY_SET = "set.example.com";
const PASSED = "passed.example.com";
const OPTIONAL = "optional.example.com";
/** URLs of names behind the Gateway that demands a header. */
const URLS = [`http://${BY_ROUTE}/`, `https://${BY_ROUTE}/`, `http://${BY_SET}/`, `https://${PASSED}/`];

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  await install(cluster);
  await cluster.apply(...OBJECTS);
  for (const balancer of [ENVOY, ENVOY_OPTIONAL]) {
    await cluster.until(`Service and Envoy ${balancer.service}`, 120, async () => {
      await publishAddress(cluster, balancer);
      await cluster.rolledOut(balancer.namespace, `deployment/${balancer.service}`);
      return true;
    });
  }
  await cluster.rolledOut(SHOP, "deployment/passed");
});

/** Deletes the Gateways first. Without their EnvoyProxy, Envoy Gateway would begin to replace the Envoys. */
after(async () => {
  await cluster.delete(...OBJECTS.filter(({ kind }) => kind === "Gateway"));
  await cluster.until("the Envoys to be gone", 120, async () => {
    const pods = await cluster.kubectl("-n", ENVOY.namespace, "get", "pods", "-l", ENVOYS, "-o", "name");
    return pods === "" || undefined;
  });
  await cluster.delete(...OBJECTS);
  await uninstall(cluster);
  await installSwitchback(cluster);
});

/** Selects the pods that Envoy Gateway creates, and those of the Gateway that demands a header. */
const ENVOYS = "app.kubernetes.io/managed-by=envoy-gateway";
const DEMANDING = "gateway.envoyproxy.io/owning-gateway-name=demanding";
const GATEWAY_API = "gateway.networking.k8s.io/v1";

function gateway(name: string, host: string, listeners: object[]): KubeObject {
  const parametersRef = { group: "gateway.envoyproxy.io", kind: "EnvoyProxy", name };
  const tls = { certificateRefs: [{ name: "envoy-tls" }] };
  const all = [
    { name: "http", port: 80, protocol: "HTTP" },
    { name: "https", port: 443, protocol: "HTTPS", hostname: host, tls },
    ...listeners,
  ];
  return {
    apiVersion: GATEWAY_API,
    kind: "Gateway",
    metadata: { namespace: SHOP, name },
    spec: {
      gatewayClassName: CLASS,
      infrastructure: { parametersRef },
      allowedListeners: { namespaces: { from: "Same" } },
      listeners: all,
    },
  };
}

function route(name: string, host: string, parent: object, kind: "HTTPRoute" | "TLSRoute" = "HTTPRoute"): KubeObject {
  const backendRefs = kind === "HTTPRoute" ? [{ name: "app", port: 80 }] : [{ name: "passed", port: 443 }];
  const spec = { parentRefs: [parent], hostnames: [host], rules: [{ backendRefs }] };
  return { apiVersion: GATEWAY_API, kind, metadata: { namespace: SHOP, name }, spec };
}

/** The policy on the page of docs/trust, for one of the Gateways. */
function policy(name: string, proxyProtocol?: object): KubeObject {
  const written = parse(trustSetting("envoy-gateway")) as KubeObject & { spec: { targetRefs: object[] } };
  const targetRefs = written.spec.targetRefs.map((ref) => ({ ...ref, name }));
  const spec = { ...written.spec, targetRefs, ...(proxyProtocol && { proxyProtocol }) };
  return { ...written, metadata: { namespace: SHOP, name }, spec };
}

/** A backend for TLS that the Gateway passes through. */
function passedBackend(): KubeObject[] {
  const program =
    `const [key, cert] = process.argv.slice(1); ` +
    `require("node:https").createServer({ key, cert }, (_, r) => r.end("passed")).listen(8443)`;
  const { key, cert } = createTestCa("passed").serving([PASSED]);
  const command = ["node", "-e", program, "--", key, cert];
  const listening = { ports: { https: 8443 }, readinessProbe: { tcpSocket: { port: "https" } } };
  return [
    programDeployment(SHOP, "passed", command, listening),
    service(SHOP, "passed", { app: "passed", ports: [{ name: "https", port: 443, targetPort: "https" }] }),
  ];
}

const LISTENER_SET: KubeObject = {
  apiVersion: GATEWAY_API,
  kind: "ListenerSet",
  metadata: { namespace: SHOP, name: "set" },
  spec: {
    parentRef: { group: "gateway.networking.k8s.io", kind: "Gateway", name: "demanding" },
    listeners: [{ name: "set", port: 80, protocol: "HTTP", hostname: BY_SET }],
  },
};
const OBJECTS: KubeObject[] = [
  certificate("envoy-tls", [BY_ROUTE, OPTIONAL]),
  ...passedBackend(),
  envoyProxy(SHOP, "demanding", ENVOY),
  envoyProxy(SHOP, "optional", ENVOY_OPTIONAL),
  gateway("demanding", BY_ROUTE, [
    { name: "passed", port: 443, protocol: "TLS", hostname: PASSED, tls: { mode: "Passthrough" } },
  ]),
  gateway("optional", OPTIONAL, []),
  policy("demanding"),
  policy("optional", { optional: true }),
  LISTENER_SET,
  route("envoy", BY_ROUTE, { name: "demanding" }),
  route("passed", PASSED, { name: "demanding" }, "TLSRoute"),
  route("set", BY_SET, { group: "gateway.networking.k8s.io", kind: "ListenerSet", name: "set" }),
  route("optional", OPTIONAL, { name: "optional" }),
];

for (const url of URLS) {
  test(`${url} works from outside, and pods get no answer`, async () => {
    await worksOutside(cluster, url, ENVOY);
    await failsInside(cluster, url, ENVOY);
  });
}

test("with an optional header, pods are answered as well", async () => {
  await worksOutside(cluster, `http://${OPTIONAL}/`, ENVOY_OPTIONAL);
  assert.equal((await getInside(cluster, `http://${OPTIONAL}/`)).status, 200);
});

test("without Switchback, the doctor names Envoy Gateway and its own solution", async () => {
  const { status, cures } = await foundWithoutUs(cluster, "pods-cut-off", ENVOY);
  assert.equal(status, "broken");
  assert.match(cures.join("\n"), /^Envoy Gateway: set `proxyProtocol: \{ optional: true \}`/m);
});

test("all names are healed without an annotation, and the client's address arrives", async () => {
  await installSwitchback(cluster);
  for (const name of [BY_ROUTE, BY_SET, PASSED]) await mapped(cluster, name, ENVOY);
  await mapped(cluster, OPTIONAL, ENVOY_OPTIONAL);
  // Envoy closes a TLS connection for a name that is served only on port 80, so port 443 may have no answer.
  await cluster.until("an answer", FOLLOWED_S, async () => {
    return (await answers(cluster, ENVOY))[80] === "demands-either" || undefined;
  });
  await answered(cluster, ENVOY_OPTIONAL, "optional");
  await optIn(cluster);
  for (const url of URLS.slice(0, 3)) await addressArrives(cluster, url);
  for (const scheme of ["http", "https"]) await addressArrives(cluster, `${scheme}://${OPTIONAL}/`);
});

test("for TLS that is passed through, Envoy's access log has the client's address", async () => {
  const since = new Date();
  const [address] = await clientAddresses(cluster);
  assert.equal((await getMapped(cluster, `https://${PASSED}/`)).body, "passed");
  await cluster.until(`a line with ${address}`, 30, async () => {
    const lines = (await cluster.logs(ENVOY.namespace, DEMANDING, since)).split("\n");
    return lines.some((line) => line.includes(PASSED) && line.includes(`"${address}:`)) || undefined;
  });
});

test("the doctor sees that the setting works, as the page of docs/trust says", async () => {
  await trustIsSeen(cluster, ENVOY, ENVOY_OPTIONAL);
});

test("no request fails while Envoy's control plane restarts it with open connections", async (t) => {
  const load = inClient(cluster, "load", "240", ...URLS);
  const old = await envoyPods();
  assert.equal(old.length, 1);
  await cluster.apply(envoyProxy(SHOP, "demanding", ENVOY, { restarted: "once" }));
  await cluster.until("another Envoy, and the old one gone", 180, async () => {
    const now = await envoyPods();
    return (now.length === 1 && now[0] !== old[0]) || undefined;
  });
  await inClient(cluster, "stop");
  const { answered: count, reused, errors, stopped } = JSON.parse(await load) as Load;
  t.diagnostic(`${count} requests were answered, ${reused} of them on connections that were open`);
  assert.deepEqual(errors, []);
  assert.ok(stopped && count > 100 && reused > 10);
  const map = await publishedMap(cluster);
  for (const name of [BY_ROUTE, BY_SET, PASSED]) assert.ok(map.includes(` ${name}\n`), name);
});

async function envoyPods(): Promise<string[]> {
  const names = await cluster.kubectl("-n", ENVOY.namespace, "get", "pods", "-l", DEMANDING, "-o", "name");
  return names.split("\n").filter((name) => name !== "");
}
