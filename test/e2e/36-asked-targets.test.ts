import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { addressesOf, NGINX, publishAddress, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { answered, answers, FOLLOWED_S, found, mapped } from "./gateways.ts";
import { getMapped, optIn } from "./opted-in.ts";
import { CERTIFICATE, gatewayAndRoute, getInside, ingress, NAME, setIngressAddress } from "./shop.ts";
import { frontAddress, installSwitchback, leaderStatus, publishedMap } from "./switchback.ts";

// No target is configured and no Service has an annotation. The proxies ask the ingress controllers whether they expect
// a PROXY header.

export const needs = ["node", "ipv4", "long"];

const BY_ROUTE = "gateway.example.com";
const ROUTE = gatewayAndRoute("asked", BY_ROUTE, CERTIFICATE);
const NGINX_CONF = "nginx.conf";

let cluster: Cluster;
let configuration: string;

before(async () => {
  cluster = await withCluster();
  const { namespace, service } = NGINX;
  const { data } = await cluster.get<{ data: Record<string, string> }>("-n", namespace, "configmap", service);
  configuration = data[NGINX_CONF] ?? "";
  await cluster.apply(...ROUTE);
  await setIngressAddress(cluster, "app", NGINX.address);
  const config = { targets: [], map: { vanishSeconds: 1 } };
  await installSwitchback(cluster, { config });
});

after(async () => {
  await configureNginx(configuration);
  await cluster.delete(...ROUTE);
  await setIngressAddress(cluster, "app", undefined);
  await installSwitchback(cluster);
});

async function configureNginx(text: string): Promise<void> {
  const { namespace, service } = NGINX;
  const patch = JSON.stringify({ data: { [NGINX_CONF]: text } });
  await cluster.kubectl("-n", namespace, "patch", "configmap", service, "--type=merge", "-p", patch);
  await cluster.kubectl("-n", namespace, "rollout", "restart", `deployment/${service}`);
  await cluster.rolledOut(namespace, `deployment/${service}`);
}

async function isAnswered(name: string): Promise<void> {
  for (const scheme of ["http", "https"]) {
    const answer = await getMapped(cluster, `${scheme}://${name}/`);
    assert.equal(answer.status, 200, JSON.stringify(answer));
  }
}

test("targets that take a header are healed", async () => {
  await mapped(cluster, NAME, NGINX);
  await mapped(cluster, BY_ROUTE, TRAEFIK);
  await answered(cluster, NGINX, "demands-either");
  await answered(cluster, TRAEFIK, "optional");
  await optIn(cluster);
  await isAnswered(NAME);
  await isAnswered(BY_ROUTE);
});

test("an ingress controller gets a new Service, and its names are mapped soon", async (t) => {
  const { namespace, service: of } = NGINX;
  const balancer = { ...NGINX, service: "fresh", ...addressesOf(({ freshLoadBalancer }) => freshLoadBalancer) };
  const { spec } = await cluster.get<{ spec: { ports: { name: string; port: number; targetPort: string }[] } }>(
    ...["-n", namespace, "service", of],
  );
  const ports = spec.ports.map(({ name, port, targetPort }) => ({ name, port, targetPort }));
  const web = ingress("fresh", "fresh.example.com", "nginx");
  const metadata = { namespace, name: balancer.service };
  const service = { apiVersion: "v1", kind: "Service", metadata, spec: { type: "LoadBalancer", ports } };
  await cluster.apply(web, { ...service, spec: { ...service.spec, selector: { app: of } } });
  t.after(() => cluster.delete(web, service));
  await setIngressAddress(cluster, "fresh", balancer.address);
  const begun = performance.now();
  await publishAddress(cluster, balancer);
  await cluster.until("an answer", FOLLOWED_S, async () =>
    Object.values(await answers(cluster, balancer)).find(Boolean),
  );
  t.diagnostic(`address to answer: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  await cluster.until("a front", FOLLOWED_S, async () => frontAddress(cluster, found(balancer)));
  t.diagnostic(`address to front: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  await mapped(cluster, "fresh.example.com", balancer);
  t.diagnostic(`address to mapped: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
});

test("nginx stops using PROXY protocol: its name leaves the map, and pods reach it without Switchback", async (t) => {
  assert.notEqual((await getInside(cluster, `http://${NAME}/`)).status, 200, "it demands a header");
  await configureNginx(configuration.replaceAll(" proxy_protocol;", ";"));
  const begun = performance.now();
  await cluster.until("the name to leave the map", FOLLOWED_S, async () => {
    return !(await publishedMap(cluster)).includes(` ${NAME}\n`) || undefined;
  });
  t.diagnostic(`off to unmapped: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const { names } = await leaderStatus(cluster);
  assert.equal(names.find(({ name }) => name === NAME)?.reason?.code, "header-not-expected");
  const answer = await getInside(cluster, `http://${NAME}/`);
  assert.equal(answer.status, 200, JSON.stringify(answer));
});

test("nginx uses PROXY protocol again: its name returns to the map, and opted-in pods are answered", async (t) => {
  await configureNginx(configuration);
  const begun = performance.now();
  await mapped(cluster, NAME, NGINX);
  t.diagnostic(`on to mapped: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  await answered(cluster, NGINX, "demands-either");
  t.diagnostic(`on to both ports: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  await optIn(cluster);
  await isAnswered(NAME);
});
