import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CLASS, install, uninstall } from "../cluster/addons/contour.ts";
import { CONTOUR } from "../cluster/addons/load-balancers.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { answered, mapped } from "./asked.ts";
import {
  addressArrives,
  certificate,
  failsInside,
  foundWithoutUs,
  trustIsSeen,
  trustSetting,
  worksOutside,
} from "./gateways.ts";
import { optIn } from "./opted-in.ts";
import { ingress, openShop, SHOP } from "./shop.ts";
import { installSwitchback } from "./switchback.ts";

// Contour with its Envoy, without annotations or configuration for Switchback. The proxies ask whether it expects a
// PROXY header.

const BY_INGRESS = "contour.example.com";
const BY_PROXY = "httpproxy.example.com";
const NAMES = [BY_INGRESS, BY_PROXY];
const URLS = NAMES.flatMap((name) => [`http://${name}/`, `https://${name}/`]);

const HTTP_PROXY: KubeObject = {
  apiVersion: "projectcontour.io/v1",
  kind: "HTTPProxy",
  metadata: { namespace: SHOP, name: "contour" },
  spec: {
    virtualhost: { fqdn: BY_PROXY, tls: { secretName: "contour-tls" } },
    routes: [{ permitInsecure: true, services: [{ name: "app", port: 80 }] }],
  },
};
const OBJECTS = [certificate("contour-tls", NAMES), ingress("contour", BY_INGRESS, CLASS, "contour-tls"), HTTP_PROXY];

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  const flags = trustSetting("contour").split(" ").slice(2);
  assert.deepEqual(flags, ["--use-proxy-protocol"]);
  await install(cluster, flags);
});

after(async () => {
  await cluster.delete(...OBJECTS);
  await uninstall(cluster);
  await installSwitchback(cluster);
});

test("without Switchback, the doctor names Contour even before Contour's first Ingress", async () => {
  const { evidence } = await foundWithoutUs(cluster, "short-circuited", CONTOUR);
  assert.match(evidence, /it has labels of Contour/);
  await cluster.apply(...OBJECTS);
});

for (const url of URLS) {
  test(`${url} works from outside, and pods get no answer`, async () => {
    await worksOutside(cluster, url, CONTOUR);
    await failsInside(cluster, url, CONTOUR);
  });
}

test("both names are healed without an annotation, and the client's address arrives", async () => {
  await installSwitchback(cluster, { config: { sources: { presets: ["contour-httpproxy"] } } });
  for (const name of NAMES) await mapped(cluster, name, CONTOUR);
  await answered(cluster, CONTOUR, "demands-either");
  await optIn(cluster);
  for (const url of URLS) await addressArrives(cluster, url);
});

test("the doctor sees that the setting works, as the page of docs/trust says", async () => {
  await trustIsSeen(cluster, CONTOUR);
});
