import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { type ControllerRig, controllerRig, NAME, untilPublished } from "#test/fakes/controller-rig.ts";
import { ipv4Answers, startDnsServer } from "#test/fakes/dns-server.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import type { StatusDocument } from "./status.ts";

// A tenant may write Ingresses and Services of its own namespace, but no status and no class. It has a target: a
// Service with the labels of Traefik, and an Ingress whose status has the address of that Service. The namespace
// `shop` has the name.

const EDGE = "192.0.2.80";
const OF_TENANT = "203.0.113.7";
const [LONG_AGO, BEFORE, LATER] = ["2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"];
const INGRESSES = "/apis/networking.k8s.io/v1";

interface Ingress {
  readonly hosts?: readonly string[];
  readonly className?: string;
  readonly ip?: string;
  readonly hostname?: string;
  readonly created?: string;
  readonly annotations?: object;
}

function putIngress(kube: MemoryKube, key: string, given: Ingress = {}): void {
  const { hosts = [NAME], className = "nginx", ip, hostname, created = BEFORE, annotations = {} } = given;
  const [namespace, name] = key.split("/");
  kube.put(`${INGRESSES}/namespaces/${namespace}/ingresses/${name}`, {
    metadata: { creationTimestamp: created, annotations },
    spec: { ingressClassName: className, rules: hosts.map((host) => ({ host })) },
    status: { loadBalancer: { ingress: (ip ?? hostname) ? [{ ip, hostname }] : [] } },
  });
}

interface Service {
  readonly ingress?: readonly object[];
  readonly labels?: object;
  readonly externalIPs?: readonly string[];
  readonly always?: boolean;
  readonly ports?: readonly number[];
  readonly created?: string;
}

function putService(kube: MemoryKube, key: string, given: Service): void {
  const { ingress = [], labels = {}, externalIPs = [], always = false, ports = [80, 443], created } = given;
  const [namespace, name] = key.split("/");
  kube.put(`/api/v1/namespaces/${namespace}/services/${name}`, {
    metadata: {
      creationTimestamp: created ?? LONG_AGO,
      labels,
      annotations: always ? { "switchback.dev/map": "always" } : {},
    },
    spec: {
      type: "LoadBalancer",
      clusterIPs: [`198.51.100.${key.length}`],
      externalIPs,
      ports: ports.map((port) => ({ port })),
    },
    status: { loadBalancer: { ingress } },
  });
}

const NGINX = { "app.kubernetes.io/name": "ingress-nginx" };

const DEFAULT_TARGET = "ingress-nginx/ingress-nginx-controller";

/** The classes of both controllers, the ingress controller of all others, and the tenant's target. */
function putTenant(kube: MemoryKube, given: Service = {}, ingress: object = { ip: EDGE }, key = DEFAULT_TARGET): void {
  putService(kube, key, { ingress: [ingress], labels: NGINX });
  for (const [name, controller] of [
    ["nginx", "k8s.io/ingress-nginx"],
    ["traefik", "traefik.io/ingress-controller"],
  ]) {
    kube.put(`${INGRESSES}/ingressclasses/${name}`, { metadata: {}, spec: { controller } });
  }
  const labels = { "app.kubernetes.io/name": "traefik" };
  putService(kube, "tenant/lb", { ingress: [{ ip: OF_TENANT }], labels, always: true, ...given });
}

/** The tenant's Ingress. Its target is the tenant's Service. */
const claimAsTenant = (kube: MemoryKube, given: Ingress = {}) =>
  putIngress(kube, "tenant/web", { className: "traefik", ip: OF_TENANT, ...given });

/** The target, the reason or the warning of the name of an object. */
async function outcome(rig: ControllerRig, key: string, host = NAME): Promise<string | undefined> {
  const found = (await rig.status()).names.find(
    ({ from, name }) => `${from.namespace}/${from.name}` === key && name === host,
  );
  const text = found?.target ?? found?.reason?.code;
  return found?.warning === undefined ? text : `${text}, ${found.warning.code}`;
}

/** Waits until the outcome of a name matches. */
async function becomes(
  rig: ControllerRig,
  key: string,
  expected: string | RegExp | undefined,
  host = NAME,
): Promise<string> {
  let seen: string | undefined;
  for (let tries = 0; tries < 400; tries += 1) {
    seen = await outcome(rig, key, host);
    if (expected instanceof RegExp ? expected.test(seen ?? "") : seen === expected) return seen ?? "";
    await setTimeout(25);
  }
  assert.fail(`${key}: ${host} is ${seen}, not ${expected}`);
}

/** Waits until the status matches. */
async function shows(rig: ControllerRig, matches: (status: StatusDocument) => boolean, what: string): Promise<void> {
  for (let tries = 0; tries < 400; tries += 1) {
    if (matches(await rig.status())) return;
    await setTimeout(25);
  }
  assert.fail(what);
}

const isLeaving = (rig: ControllerRig) => shows(rig, ({ leaving }) => leaving.includes(NAME), "the name leaves");

/** Starts a controller. */
function started(t: TestContext, kube: MemoryKube, prepare: (kube: MemoryKube) => void, config = {}) {
  return controllerRig(t, { kube, prepare, config, upstream: false });
}

/** Starts another controller in the same cluster. */
async function restarted(t: TestContext, before: ControllerRig, config = {}): Promise<ControllerRig> {
  await before.stop();
  const rig = await started(t, before.kube, () => {}, config);
  await shows(rig, ({ leader, synced }) => leader && synced, "it leads");
  return rig;
}

const removeShop = ({ kube }: ControllerRig) => kube.remove(`${INGRESSES}/namespaces/shop/ingresses/web`);

/** Settings with a DNS that has these addresses. */
async function withDns(t: TestContext, records: Readonly<Record<string, string>>): Promise<object> {
  const dns = await startDnsServer(ipv4Answers(new Map(Object.entries(records))));
  t.after(() => dns.close());
  return { policy: { verifyDns: "auto", dnsServers: [dns.address] } };
}

test("a tenant adds a neighbour's name to an older Ingress: the neighbour keeps it, also after restarts", async (t) => {
  const first = await started(t, new MemoryKube(), (kube) => {
    putTenant(kube);
    putIngress(kube, "shop/web", { ip: EDGE });
    claimAsTenant(kube, { hosts: ["own.example.com"], created: LONG_AGO });
  });
  await untilPublished(first);
  await untilPublished(first, "own.example.com");
  claimAsTenant(first.kube, { hosts: [NAME, "own.example.com"], created: LONG_AGO });
  await becomes(first, "tenant/web", "conflict");
  await becomes(first, "shop/web", "ingress-nginx");
  const rig = await restarted(t, first);
  await becomes(rig, "tenant/web", "conflict");
  await becomes(rig, "shop/web", "ingress-nginx");
  removeShop(rig);
  await isLeaving(rig);
  const again = await restarted(t, rig);
  await isLeaving(again);
  await becomes(again, "tenant/web", "conflict");
  putIngress(again.kube, "shop/web", { ip: EDGE, created: LATER });
  await becomes(again, "shop/web", "ingress-nginx");
  await shows(again, ({ leaving }) => leaving.length === 0, "no name is leaving");
});

test("a tenant claims a neighbour's name with the same target, then with another: it is not the holder", async (t) => {
  const rig = await started(t, new MemoryKube(), (kube) => {
    putTenant(kube);
    putIngress(kube, "shop/web", { ip: EDGE });
  });
  await untilPublished(rig);
  putIngress(rig.kube, "tenant/web", { ip: EDGE, created: LONG_AGO });
  await becomes(rig, "tenant/web", "ingress-nginx");
  removeShop(rig);
  await becomes(rig, "shop/web", undefined);
  claimAsTenant(rig.kube, { created: LONG_AGO });
  await becomes(rig, "tenant/web", "conflict");
  putIngress(rig.kube, "shop/web", { ip: EDGE, created: LATER });
  await becomes(rig, "shop/web", "ingress-nginx");
});

test("a tenant has the addresses of a neighbour's name in `externalIPs`: DNS does not move the name", async (t) => {
  const nlb = "203.0.113.99";
  const prepare = (kube: MemoryKube) => {
    putTenant(kube, {});
    putService(kube, "edge/lb", { ingress: [{ hostname: "nlb.example.net" }], always: true });
    putIngress(kube, "shop/web", { className: "other", hostname: "nlb.example.net" });
  };
  const rig = await started(t, new MemoryKube(), prepare, await withDns(t, { [NAME]: nlb }));
  await untilPublished(rig);
  const target = await becomes(rig, "shop/web", /^edge-lb-/);
  putTenant(rig.kube, { externalIPs: [nlb] });
  claimAsTenant(rig.kube, { created: LONG_AGO });
  await becomes(rig, "tenant/web", "conflict");
  await becomes(rig, "shop/web", target);
});

const WITHOUT_MAPPING: ReadonlyArray<{
  readonly what: string;
  readonly code: string;
  readonly dns?: string;
  readonly status?: object;
  readonly ingress?: Ingress;
}> = [
  { what: "DNS leads it to a CDN", code: "dns-elsewhere", dns: "198.51.100.250", ingress: { ip: EDGE } },
  {
    what: "its load balancer has a host name",
    code: "load-balancer-hostname",
    status: { hostname: "lb.example.net" },
  },
  { what: "its load balancer has ipMode Proxy", code: "ip-mode-proxy", status: { ip: EDGE, ipMode: "Proxy" } },
  { what: "its owner ignores it", code: "ignored", ingress: { annotations: { "switchback.dev/ignore": "true" } } },
];
for (const { what, code, dns, status, ingress } of WITHOUT_MAPPING) {
  test(`a tenant claims a name that does without a mapping: ${what}. Only an older object gets it`, async (t) => {
    const prepare = (kube: MemoryKube) => {
      putTenant(kube, {}, status);
      putIngress(kube, "shop/web", ingress);
      claimAsTenant(kube, { hosts: [NAME, "own.example.com"], created: LATER });
    };
    const config = dns === undefined ? {} : await withDns(t, { [NAME]: dns });
    const rig = await started(t, new MemoryKube(), prepare, config);
    await untilPublished(rig, "own.example.com");
    await becomes(rig, "shop/web", code);
    await becomes(rig, "tenant/web", "conflict");
    const { names } = await rig.status();
    const reason = names.find(({ from, name }) => from.namespace === "tenant" && name === NAME)?.reason?.text ?? "";
    assert.match(reason, /^Ingress shop\/web .*policy\.claims/);
    claimAsTenant(rig.kube, { created: LONG_AGO });
    await becomes(rig, "tenant/web", /^tenant-lb-/);
  });
}

test("a name that DNS leads elsewhere loses its evidence: nobody else gets it, also after a restart", async (t) => {
  const config = await withDns(t, { [NAME]: "198.51.100.250" });
  const prepare = (kube: MemoryKube) => {
    putTenant(kube);
    putIngress(kube, "shop/web", { className: "other", ip: EDGE });
    claimAsTenant(kube, { hosts: [NAME, "own.example.com"], created: LATER });
  };
  const rig = await started(t, new MemoryKube(), prepare, config);
  await untilPublished(rig, "own.example.com");
  await becomes(rig, "shop/web", "dns-elsewhere");
  putIngress(rig.kube, "shop/web", { className: "other" });
  await becomes(rig, "shop/web", /^(no-target|no-address|another-controller)$/);
  await becomes(rig, "tenant/web", "conflict");
  const next = await restarted(t, rig, config);
  await untilPublished(next, "own.example.com");
  await becomes(next, "tenant/web", "conflict");
});

test("a tenant squats names of others with `ignore`: it takes no name that is published or older", async (t) => {
  const ignored = { annotations: { "switchback.dev/ignore": "true" } };
  const hosts = [NAME, "older.example.com", "*.wild.example.com", "shop.wild.example.com"];
  const prepare = (kube: MemoryKube) => {
    putTenant(kube);
    putIngress(kube, "shop/web", { ip: EDGE });
  };
  const rig = await started(t, new MemoryKube(), prepare, { policy: { maxNamesPerNamespace: 4 } });
  await untilPublished(rig);
  putIngress(rig.kube, "tenant/squat", { hosts: [...hosts, "d.example.com"], created: LONG_AGO, ...ignored });
  putIngress(rig.kube, "tenant/young", { hosts: ["older.example.com"], created: LATER, ...ignored });
  await becomes(rig, "tenant/squat", "ignored");
  await becomes(rig, "shop/web", "ingress-nginx");
  rig.kube.remove(`${INGRESSES}/namespaces/tenant/ingresses/squat`);
  putIngress(rig.kube, "tenant/squat", { hosts: ["*.wild.example.com"], created: LONG_AGO, ...ignored });
  putIngress(rig.kube, "shop/more", {
    hosts: ["older.example.com", "shop.wild.example.com", "*.wild.example.com"],
    ip: EDGE,
  });
  for (const host of ["older.example.com", "shop.wild.example.com"]) {
    await becomes(rig, "shop/more", "ingress-nginx", host);
  }
});

// Evidence of a mapped name is missing, as after an upgrade.

/** Without a known class and an address, an object has no evidence of its controller. */
const NOTHING = { className: "nobody" };
const KEPT = "ingress-nginx, kept";
const staysUp = (rig: ControllerRig) => shows(rig, ({ leaving }) => !leaving.includes(NAME), "the name stays");

/** A controller that mapped the name by evidence. `change` happens before the next controller starts. */
async function changed(t: TestContext, change: (kube: MemoryKube) => void): Promise<ControllerRig> {
  const first = await controllerRig(t, { prepare: (kube) => putIngress(kube, "shop/web", { ip: EDGE }) });
  await untilPublished(first);
  await first.stop();
  change(first.kube);
  const rig = await controllerRig(t, { kube: first.kube, prepare() {} });
  await shows(rig, ({ leader }) => leader, "it leads");
  return rig;
}

test("a name stays when its evidence disappears; a stranger without evidence does not inherit it", async (t) => {
  const rig = await changed(t, (kube) => {
    putIngress(kube, "shop/web", NOTHING);
    putIngress(kube, "thief/web", { ...NOTHING, created: LATER });
  });
  await becomes(rig, "shop/web", KEPT);
  await becomes(rig, "thief/web", "no-target");
  await staysUp(rig);
  removeShop(rig);
  await isLeaving(rig);
  await becomes(rig, "thief/web", "no-target");
});

for (const [what, change] of [
  ["its class is of a load balancer outside the cluster", { className: "gce" }],
  ["its class is of other software", { className: "traefik" }],
  ["its address is not the target's", { ip: "203.0.113.99" }],
] as const) {
  test(`a name leaves if there is evidence against it, before and after a restart: ${what}`, async (t) => {
    const rig = await changed(t, (kube) => putIngress(kube, "shop/web", change));
    await isLeaving(rig);
    putIngress(rig.kube, "shop/web", { ip: EDGE });
    await staysUp(rig);
    putIngress(rig.kube, "shop/web", change);
    await isLeaving(rig);
  });
}

test("an object with evidence takes a kept name of its namespace, but not one of another namespace", async (t) => {
  const rig = await changed(t, (kube) => {
    putIngress(kube, "shop/web", NOTHING);
    putService(kube, "edge/lb", { ingress: [{ ip: OF_TENANT }] });
  });
  await becomes(rig, "shop/web", KEPT);
  putIngress(rig.kube, "new/web", { ip: OF_TENANT, created: LONG_AGO });
  await becomes(rig, "new/web", "conflict");
  await becomes(rig, "shop/web", KEPT);
  putIngress(rig.kube, "shop/new", { ip: OF_TENANT, created: LATER });
  await becomes(rig, "shop/web", "no-target");
  await becomes(rig, "shop/new", /^edge-lb-/);
});

test("the object with evidence is deleted: another one of the namespace keeps the name", async (t) => {
  const rig = await controllerRig(t, { prepare: (kube) => putIngress(kube, "shop/proven", { ip: EDGE }) });
  putIngress(rig.kube, "shop/bare", NOTHING);
  await untilPublished(rig);
  rig.kube.remove(`${INGRESSES}/namespaces/shop/ingresses/proven`);
  await becomes(rig, "shop/bare", KEPT);
  await staysUp(rig);
});
