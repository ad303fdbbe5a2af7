import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type ControllerRig, controllerRig, NAME, untilPublished } from "#test/fakes/controller-rig.ts";
import type { MemoryKube } from "#test/fakes/memory-kube.ts";

// After an upgrade or a restart, mapped names stay if evidence for them is merely missing.

const BALANCER = { loadBalancer: { ingress: [{ ip: "192.0.2.80", ipMode: "VIP" }] } };

interface Ingress {
  readonly host?: string;
  readonly className?: string;
  readonly status?: object;
  readonly created?: string;
}

function put(kube: MemoryKube, key: string, { host = NAME, className = "nginx", status, created }: Ingress): void {
  const [namespace, name] = key.split("/");
  kube.put(`/apis/networking.k8s.io/v1/namespaces/${namespace}/ingresses/${name}`, {
    metadata: { creationTimestamp: created ?? "2026-01-01T00:00:00Z" },
    spec: { ingressClassName: className, rules: [{ host }] },
    status: status ?? BALANCER,
  });
}

/** Without a known class and a status, the object has no evidence of its controller. */
const NOTHING = { className: "nobody", status: {} };

const nameOf = async (rig: ControllerRig, key = "shop/web") =>
  (await rig.status()).names.find(({ from, name }) => `${from.namespace}/${from.name}` === key && name === NAME);

/** Repeats `ask` until it returns the expected value. */
async function eventually(ask: () => Promise<unknown>, expected: unknown): Promise<void> {
  let seen: unknown;
  for (let tries = 0; tries < 100; tries += 1) {
    seen = await ask();
    if (JSON.stringify(seen) === JSON.stringify(expected)) return;
    await sleep(50);
  }
  assert.deepEqual(seen, expected);
}

/** The target, the reason and the warning of the name of an object. */
async function becomes(rig: ControllerRig, key: string, expected: readonly (string | null)[]): Promise<void> {
  const ask = async () => {
    const found = await nameOf(rig, key);
    return [found?.target ?? null, found?.reason?.code ?? null, found?.warning?.code ?? null];
  };
  await eventually(ask, expected);
}

const isLeaving = async (rig: ControllerRig, expected: boolean) =>
  await eventually(async () => (await rig.status()).leaving.includes(NAME), expected);

/** A controller that mapped the name by evidence. The evidence is gone when the next controller starts. */
async function restarted(t: TestContext, change: (kube: MemoryKube) => void, config = {}): Promise<ControllerRig> {
  const first = await controllerRig(t, { prepare: (kube) => put(kube, "shop/web", {}) });
  await untilPublished(first);
  await first.stop();
  change(first.kube);
  const rig = await controllerRig(t, { kube: first.kube, prepare: () => {}, config });
  await eventually(async () => (await rig.status()).leader, true);
  return rig;
}

test("a name stays when its evidence disappears, and leaves when its object is deleted", async (t) => {
  const rig = await controllerRig(t, { prepare: (kube) => put(kube, "shop/web", {}) });
  await untilPublished(rig);
  put(rig.kube, "shop/web", NOTHING);
  await becomes(rig, "shop/web", ["ingress-nginx", null, "kept"]);
  const { warnings, leaving } = await rig.status();
  assert.deepEqual(leaving, []);
  assert.ok(warnings.some(({ code }) => code === "kept"));
  assert.match((await nameOf(rig))?.warning?.text ?? "", /its class "nobody" is not known .* \(no-target\)$/);
  rig.kube.remove("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web");
  await isLeaving(rig, true);
});

test("a name stays through a restart", async (t) => {
  const rig = await restarted(t, (kube) => put(kube, "shop/web", NOTHING));
  await becomes(rig, "shop/web", ["ingress-nginx", null, "kept"]);
  assert.deepEqual((await rig.status()).leaving, []);
});

for (const [what, change] of [
  ["its class is of a load balancer outside the cluster", { className: "gce", status: {} }],
  ["its class is of other software", { className: "traefik", status: {} }],
  ["its address is not the target's", { status: { loadBalancer: { ingress: [{ ip: "203.0.113.99" }] } } }],
] as const) {
  test(`a name leaves if there is evidence against it, before and after a restart: ${what}`, async (t) => {
    const rig = await restarted(t, (kube) => put(kube, "shop/web", change));
    await isLeaving(rig, true);
    put(rig.kube, "shop/web", {});
    await isLeaving(rig, false);
    put(rig.kube, "shop/web", change);
    await isLeaving(rig, true);
  });
}

test("a name leaves if a rule denies it", async (t) => {
  const rig = await restarted(t, (kube) => put(kube, "shop/web", NOTHING), {
    policy: { denyDomains: ["example.com", "*.example.com"] },
  });
  await becomes(rig, "shop/web", [null, "domain-not-allowed", null]);
  assert.deepEqual((await rig.status()).leaving, [NAME]);
});

test("a fresh install maps nothing without evidence", async (t) => {
  const rig = await controllerRig(t, {
    prepare: (kube) => {
      put(kube, "shop/web", NOTHING);
      put(kube, "shop/other", { host: "other.example.com" });
    },
  });
  await untilPublished(rig, "other.example.com");
  await becomes(rig, "shop/web", [null, "no-target", null]);
});

test("if several namespaces claim a kept name, the one that has it keeps it; no other inherits it", async (t) => {
  const rig = await restarted(t, (kube) => {
    put(kube, "shop/web", NOTHING);
    put(kube, "thief/web", { ...NOTHING, created: "2026-02-01T00:00:00Z" });
  });
  await becomes(rig, "shop/web", ["ingress-nginx", null, "kept"]);
  await becomes(rig, "thief/web", [null, "no-target", null]);
  rig.kube.remove("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web");
  await isLeaving(rig, true);
  await becomes(rig, "thief/web", [null, "no-target", null]);
});

test("an object with evidence takes a kept name of its namespace, but not one of another namespace", async (t) => {
  const rig = await restarted(t, (kube) => {
    put(kube, "shop/web", NOTHING);
    kube.put("/api/v1/namespaces/edge/services/lb", {
      metadata: { creationTimestamp: "2026-01-01T00:00:00Z" },
      spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.81"], ports: [{ port: 80 }, { port: 443 }] },
      status: { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } },
    });
  });
  await becomes(rig, "shop/web", ["ingress-nginx", null, "kept"]);
  const status = { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } };
  put(rig.kube, "new/web", { status, created: "2025-03-01T00:00:00Z" });
  await becomes(rig, "new/web", [null, "conflict", null]);
  await becomes(rig, "shop/web", ["ingress-nginx", null, "kept"]);
  put(rig.kube, "shop/new", { status, created: "2026-03-01T00:00:00Z" });
  await becomes(rig, "shop/web", [null, "no-target", null]);
  assert.match((await nameOf(rig, "shop/new"))?.target ?? "", /^edge-lb-/);
  // All objects are decided again when a Service changes, now with the other target.
  const far = { loadBalancer: { ingress: [{ ip: "203.0.113.99" }] } };
  rig.kube.put("/api/v1/namespaces/far/services/lb", {
    metadata: { creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.82"], ports: [{ port: 80 }, { port: 443 }] },
    status: far,
  });
  put(rig.kube, "far/web", { host: "far.example.com", className: "nobody", status: far });
  await untilPublished(rig, "far.example.com");
  assert.equal((await nameOf(rig, "shop/web"))?.reason?.code, "no-target");
});

for (const order of [
  ["bare", "proven"],
  ["proven", "bare"],
]) {
  test(`the object with evidence is deleted, created as ${order.join(", then ")}: the name stays`, async (t) => {
    const rig = await controllerRig(t, { prepare: (kube) => put(kube, "shop/first", { host: "first.example.com" }) });
    await untilPublished(rig, "first.example.com");
    for (const name of order) {
      put(rig.kube, `shop/${name}`, name === "bare" ? NOTHING : {});
      await eventually(async () => (await nameOf(rig, `shop/${name}`)) !== undefined, true);
    }
    await untilPublished(rig);
    rig.kube.remove("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/proven");
    await becomes(rig, "shop/bare", ["ingress-nginx", null, "kept"]);
    await isLeaving(rig, false);
  });
}

test("a Service at an object's second address takes no name, also after a restart", async (t) => {
  const lb = (kube: MemoryKube, name: string, ip: string, created: string) =>
    kube.put(`/api/v1/namespaces/${name}/services/lb`, {
      metadata: { creationTimestamp: created },
      spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.81"], ports: [{ port: 80 }, { port: 443 }] },
      status: { loadBalancer: { ingress: [{ ip }] } },
    });
  const status = { loadBalancer: { ingress: [{ ip: "203.0.113.7" }, { ip: "203.0.113.8" }] } };
  const first = await controllerRig(t, {
    prepare: (kube) => {
      lb(kube, "own", "203.0.113.7", "2026-01-01T00:00:00Z");
      put(kube, "shop/web", { className: "nobody", status });
    },
  });
  await untilPublished(first);
  const target = (await nameOf(first))?.target ?? "";
  assert.match(target, /^own-lb-/);
  lb(first.kube, "evil", "203.0.113.8", "2026-02-01T00:00:00Z");
  const theirs = { loadBalancer: { ingress: [{ ip: "203.0.113.8" }] } };
  put(first.kube, "evil/web", { className: "nobody", status: theirs, created: "2026-02-01T00:00:00Z" });
  put(first.kube, "evil/own", { host: "evil.example.com", className: "nobody", status: theirs });
  await untilPublished(first, "evil.example.com");
  await becomes(first, "evil/web", [null, "conflict", null]);
  await becomes(first, "shop/web", [target, null, null]);
  await first.stop();
  const rig = await controllerRig(t, { kube: first.kube, prepare: () => {} });
  await eventually(async () => (await rig.status()).leader, true);
  await becomes(rig, "evil/web", [null, "conflict", null]);
  await becomes(rig, "shop/web", [target, null, null]);
});
