import assert from "node:assert/strict";
import type { NameStatus } from "#controller/status.ts";
import { ingress } from "../../objects.ts";
import { until } from "../../system.ts";
import type { Attack } from "../attack.ts";
import { HOSTILE, NEIGHBOUR, NEIGHBOUR_NAME, type Stage } from "../stage.ts";
import { after, createIngress, giveAddress, ingresses, sweep } from "./tenant.ts";

// Attacks that try to change the target of a name.

const HOST_NAME = "shared.lb.example.com";
const SHARED = { ingress: "shared", name: "shared.neighbour.example.com" };
const EVIL = { ingress: "evil", name: "evil.hostile.example.com", ip: "192.0.2.120" };
const KEPT = {
  service: "two",
  ingress: "two",
  name: "two.neighbour.example.com",
  ips: ["192.0.2.121", "192.0.2.122"],
} as const;
const ALWAYS = { "switchback.dev/map": "always" };
/** A class without a default target. Only the labels of a Service say which one serves it. */
const CLASS = "traefik";
const TRAEFIK = { "app.kubernetes.io/name": "traefik" };
const COPY = {
  service: "copy",
  ip: "192.0.2.123",
  ipOfTraefik: "192.0.2.124",
  name: "copy.hostile.example.com",
  published: "shop.example.com",
  later: ["later.example.com", "last.example.com"],
} as const;

export const TARGET_ATTACKS: readonly Attack[] = [
  {
    name: "Service of a shared host name",
    by: "tenant",
    async run(stage) {
      const give = (namespace: string, name: string, hostname: string) =>
        giveAddress(stage, `${services(namespace)}/${name}`, ...(namespace === HOSTILE ? [{ ip: EVIL.ip }] : []), {
          hostname,
        });
      // The tenant's Service is older than its host name, which its owner chooses by an annotation of the provider.
      await createTarget(stage, {});
      await stage.system.aged(HOSTILE, `service/${EVIL.ingress}`);
      // The neighbour's load balancer is not short-circuited, so its name needs no mapping.
      await createService(stage, NEIGHBOUR, "lb");
      await give(NEIGHBOUR, "lb", HOST_NAME);
      const parts = { namespace: NEIGHBOUR, className: "elsewhere" };
      await stage.system.apply(ingress(SHARED.ingress, [SHARED.name], parts));
      await giveAddress(stage, `${ingresses(NEIGHBOUR)}/${SHARED.ingress}`, { hostname: HOST_NAME });
      await until("the neighbour's name to need no mapping", async () => {
        return (await targetOf(stage, SHARED.name)) === "load-balancer-hostname";
      });
      await give(HOSTILE, EVIL.ingress, HOST_NAME);
      await stage.spread();
      assert.equal(await targetOf(stage, SHARED.name), "load-balancer-hostname", "the tenant's Service took the name");
      // Now the neighbour's own Service asks for the mapping. Once it serves the name, it keeps it.
      await give(HOSTILE, EVIL.ingress, "other.lb.example.com");
      const path = `${services(NEIGHBOUR)}/lb`;
      const request = { method: "PATCH", path, contentType: "application/merge-patch+json" };
      await stage.system.cluster.call({ ...request, body: { metadata: { annotations: ALWAYS } } });
      await until("the name to be mapped", async () => (await stage.system.publishedNames()).has(SHARED.name));
      const before = (await stage.system.published()).get(SHARED.name);
      await give(HOSTILE, EVIL.ingress, HOST_NAME);
      if (stage.profile === "default") await stage.restartController();
      const took = await stage.spread();
      // A new leader decides a name once DNS has answered. Until then the published one stays.
      assert.deepEqual((await stage.system.published()).get(SHARED.name), before, "the name moved at the restart");
      await until("a decision on the name", async () => (await nameOf(stage, SHARED.name)).target !== undefined);
      assert.match(await targetOf(stage, SHARED.name), /^neighbour-lb-/, "the tenant's Service took the name");
      assert.deepEqual((await stage.system.published()).get(SHARED.name), before, "the tenant's Service took the name");
      await stage.system.kubectl("-n", NEIGHBOUR, "delete", "ingress/shared", "service/lb");
      await sweepTarget(stage);
      return {
        tried: "an older Service with map: always gets the host name of a neighbour's load balancer",
        outcome: after(took),
      };
    },
  },
  {
    name: "found target beside the default",
    by: "tenant",
    async run(stage) {
      const before = (await stage.system.published()).get(NEIGHBOUR_NAME);
      assert.ok(before);
      await createTarget(stage, {});
      // The neighbour's Ingresses have no status.
      const took = await stage.spread();
      assert.deepEqual((await stage.system.published()).get(NEIGHBOUR_NAME), before);
      await sweepTarget(stage);
      return { tried: "a load balancer with an address, and an Ingress that has it", outcome: after(took) };
    },
  },
  {
    name: "kept name of a neighbour",
    by: "tenant",
    async run(stage) {
      const [own, other] = KEPT.ips;
      // The Ingress status has two addresses. No Service has the second one until the tenant's Service claims it.
      await createService(stage, NEIGHBOUR, KEPT.service);
      await giveAddress(stage, `${services(NEIGHBOUR)}/${KEPT.service}`, { ip: own });
      await stage.system.apply(ingress(KEPT.ingress, [KEPT.name], { namespace: NEIGHBOUR, className: "elsewhere" }));
      await giveAddress(stage, `${ingresses(NEIGHBOUR)}/${KEPT.ingress}`, { ip: own }, { ip: other });
      // Until the controller has read the Ingress status, the name has the default target.
      let before: readonly string[] | undefined;
      await until("the neighbour's own target in the map", async () => {
        const { target, addresses } = await nameOf(stage, KEPT.name);
        before = (await stage.system.published()).get(KEPT.name);
        return /^neighbour-two-/.test(target ?? "") && before?.join() === addresses?.join();
      });
      await stage.system.aged(NEIGHBOUR, `service/${KEPT.service}`);
      await stage.system.aged(NEIGHBOUR, `ingress/${KEPT.ingress}`);
      await createTarget(stage, { ip: other }, [EVIL.name, KEPT.name]);
      // Neither a Service at the other address, nor an Ingress with evidence of it, takes the name.
      const took = await stage.spread();
      assert.deepEqual((await stage.system.published()).get(KEPT.name), before, "the tenant took the name");
      // An Ingress that has no evidence of any target does not keep the name either.
      await sweep(stage);
      await createIngress(stage, "thief", [KEPT.name], "elsewhere");
      await giveAddress(stage, `${ingresses(HOSTILE)}/thief`, { ip: own }, { ip: EVIL.ip });
      await stage.system.kubectl("-n", NEIGHBOUR, "delete", `ingress/${KEPT.ingress}`);
      await until("the name to leave", async () => !(await stage.system.publishedNames()).has(KEPT.name));
      await stage.system.kubectl("-n", NEIGHBOUR, "delete", `service/${KEPT.service}`);
      await sweepTarget(stage);
      return { tried: "a Service at the second address of a neighbour's Ingress, and its name", outcome: after(took) };
    },
  },
  {
    name: "copied label, then a restart",
    by: "tenant",
    profiles: ["default"],
    async run(stage) {
      const { system } = stage;
      const addressesOf = async (name: string) => (await system.published()).get(name);
      await createService(stage, "default", "traefik", { labels: TRAEFIK });
      await giveAddress(stage, `${services("default")}/traefik`, { ip: COPY.ipOfTraefik });
      await system.apply(ingress("copied", [COPY.published], { namespace: NEIGHBOUR, className: CLASS }));
      await until("the name by its class", async () => /^default-traefik-/.test(await targetOf(stage, COPY.published)));
      await until("the name in the map", async () => (await addressesOf(COPY.published)) !== undefined);
      const before = await addressesOf(COPY.published);
      // DNS leads the tenant's name to its Service, which then gets the label.
      stage.records.set(COPY.name, COPY.ip);
      const none = { "switchback.dev/proxy-protocol": "none" };
      await createService(stage, HOSTILE, COPY.service, { annotations: { ...ALWAYS, ...none } });
      await giveAddress(stage, `${services(HOSTILE)}/${COPY.service}`, { ip: COPY.ip });
      const path = `${services(HOSTILE)}/${COPY.service}`;
      const { spec } = (await stage.tenant({ method: "GET", path })).body as { spec: { clusterIPs: string[] } };
      await createIngress(stage, "copy", [COPY.name], CLASS);
      const first = spec.clusterIPs[0] ?? "";
      await until("the tenant's ClusterIP", async () => (await addressesOf(COPY.name))?.includes(first) === true);
      let took = 0;
      for (const [index, later] of COPY.later.entries()) {
        // A Service that is always mapped needs other evidence than one whose load balancer has an address.
        const annotations = { "switchback.dev/map": index === 0 ? "always" : null };
        const body = { metadata: { labels: TRAEFIK, annotations } };
        const request = { method: "PATCH", path, contentType: "application/merge-patch+json", body };
        assert.equal((await stage.tenant(request)).status, 200);
        await stage.restartController();
        took = await stage.spread();
        assert.deepEqual(await addressesOf(COPY.published), before, "the tenant took the published name");
        await system.apply(ingress(`later-${index}`, [later], { namespace: NEIGHBOUR, className: CLASS }));
        await until("a decision on the new name", async () => (await targetOf(stage, later)) !== "");
        await stage.spread();
        assert.deepEqual(await addressesOf(later), before, "the tenant took the new name");
      }
      await system.kubectl("-n", NEIGHBOUR, "delete", "ingress/copied", "ingress/later-0", "ingress/later-1");
      await system.kubectl("-n", "default", "delete", "service/traefik");
      await sweep(stage);
      assert.equal((await stage.tenant({ method: "DELETE", path })).status, 200);
      return {
        tried: "a Service with Traefik's label, with and without map: always, an Ingress, and a new controller",
        outcome: `a neighbour's names of the class keep their target; ${after(took)}`,
      };
    },
  },
];

export const services = (namespace: string) => `/api/v1/namespaces/${namespace}/services`;

/** The status of a claimed name. Empty if no object claims the name. */
async function nameOf({ system }: Stage, name: string): Promise<Partial<NameStatus>> {
  const { names } = await (await system.leader()).status();
  return names.find((each) => each.name === name) ?? {};
}

/** The target of a name, or the reason code if it has no target. */
async function targetOf(stage: Stage, name: string): Promise<string> {
  const { target, reason } = await nameOf(stage, name);
  return reason?.code ?? target ?? "";
}

/** Creates a load balancer with the ports 80 and 443, without an address. */
export async function createService(stage: Stage, namespace: string, name: string, metadata = {}): Promise<void> {
  const ports = [80, 443].map((port) => ({ name: `p${port}`, port }));
  const spec = { type: "LoadBalancer", allocateLoadBalancerNodePorts: false, ports };
  const body = { apiVersion: "v1", kind: "Service", metadata: { name, ...metadata }, spec };
  const request = { method: "POST", path: services(namespace), body };
  const { status } = await (namespace === HOSTILE ? stage.tenant(request) : stage.system.cluster.call(request));
  assert.equal(status, 201);
}

/**
 * Creates a Service of the tenant that is the target of the tenant's names. `more` goes into the Service's status.
 */
async function createTarget(
  stage: Stage,
  more: { readonly ip?: string; readonly hostname?: string },
  names: readonly string[] = [EVIL.name],
): Promise<void> {
  await createService(stage, HOSTILE, EVIL.ingress, { annotations: ALWAYS });
  const addresses = Object.keys(more).length === 0 ? [{ ip: EVIL.ip }] : [{ ip: EVIL.ip }, more];
  await giveAddress(stage, `${services(HOSTILE)}/${EVIL.ingress}`, ...addresses);
  await createIngress(stage, EVIL.ingress, names, "elsewhere");
  await giveAddress(stage, `${ingresses(HOSTILE)}/${EVIL.ingress}`, { ip: EVIL.ip });
  await until("the tenant's own target", async () => /^hostile-evil-/.test(await targetOf(stage, EVIL.name)));
}

async function sweepTarget(stage: Stage): Promise<void> {
  await sweep(stage);
  const { status } = await stage.tenant({ method: "DELETE", path: `${services(HOSTILE)}/${EVIL.ingress}` });
  assert.equal(status, 200);
}
