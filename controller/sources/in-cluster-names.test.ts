import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { claimOf } from "#test/arbitraries.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled, stopTime } from "#test/fakes/stopped-time.ts";
import { InClusterNames, type ServiceKeys } from "./in-cluster-names.ts";
import { Namespaces } from "./namespaces.ts";

// A pod's search list turns `api.payments` into the Service `api` of the namespace `payments`. The pod's hosts file
// is read before DNS, so a mapped name would hide the Service.

const NAMESPACES = "/api/v1/namespaces";
const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 100 };

/** The Services of a cluster, by key. */
class Services extends Set<string> implements ServiceKeys {
  #onDeleted = () => {};

  hasService(key: string): boolean {
    return this.has(key);
  }

  followDeleted(onDeleted: () => void): void {
    this.#onDeleted = onDeleted;
  }

  remove(key: string): void {
    this.delete(key);
    this.#onDeleted();
  }
}

async function cluster(t: TestContext, { namespaces = ["payments", "vault", "dev"] } = {}) {
  const pass = stopTime(t);
  const api = new MemoryKube();
  const services = new Services(["dev/shop"]);
  const add = (namespace: string) => api.set(NAMESPACES, { metadata: { name: namespace } });
  for (const namespace of namespaces) add(namespace);
  const namespaceList = new Namespaces({ client: api.client, log: silentLogger });
  const names = new InClusterNames({ namespaces: namespaceList, services });
  const plan = new Plan(createClaimPolicy(RULES, "cluster.local"), 100, (name) => names.reasonOf(name));
  names.follow(() => plan.reevaluateServiceNames());
  t.after(() => Promise.all([names.stop(), namespaceList.stop()]));
  const state = { synced: 0 };
  namespaceList.start(() => {
    state.synced += 1;
  });
  await settled();
  const claim = async (object: string, ...hosts: string[]) => {
    plan.set(
      object,
      hosts.map((host) => claimOf(host, object)),
    );
    plan.takeChanges();
    await settled();
    await pass(20);
    plan.takeChanges();
  };
  const mapped = () => [...plan.planned.keys()].sort();
  const reasons = () =>
    Object.fromEntries(
      [...plan.report()].map(({ name, decision, warning }) => [
        name,
        decision.mapped ? (warning?.code ?? "mapped") : decision.reason.code,
      ]),
    );
  return { api, add, services, plan, claim, mapped, reasons, state, pass };
}

test("a name below a namespace is refused, whether such a Service exists or not", async (t) => {
  const { claim, mapped, reasons, state } = await cluster(t);
  assert.equal(state.synced, 1);
  await claim("tenant/web", "api.payments", "vault.vault", "VAULT-0.vault.vault", "*.api.payments", "www.example.com");
  assert.deepEqual(mapped(), ["www.example.com"]);
  assert.equal(reasons()["api.payments"], "in-cluster-name");
  assert.equal(reasons()["vault-0.vault.vault"], "in-cluster-name");
});

test("below a public top-level domain, only names of existing Services are refused", async (t) => {
  const { claim, mapped, reasons } = await cluster(t);
  await claim("tenant/web", "shop.dev", "www.shop.dev", "blog.dev", "www.blog.dev");
  assert.deepEqual(mapped(), ["blog.dev", "www.blog.dev"]);
  assert.deepEqual(reasons(), {
    "shop.dev": "in-cluster-name",
    "www.shop.dev": "in-cluster-name",
    "blog.dev": "mapped",
    "www.blog.dev": "mapped",
  });
});

test("a later namespace or Service removes no name, even if the object changes, but is reported", async (t) => {
  const { add, services, claim, mapped, reasons } = await cluster(t, { namespaces: ["dev"] });
  await claim("tenant/web", "api.payments", "blog.dev");
  add("payments");
  services.add("dev/blog");
  await claim("tenant/web", "api.payments", "blog.dev", "db.payments");
  assert.deepEqual(mapped(), ["api.payments", "blog.dev"]);
  assert.deepEqual(reasons(), {
    "api.payments": "in-cluster-name",
    "blog.dev": "in-cluster-name",
    "db.payments": "in-cluster-name",
  });
  await claim("tenant/other", "api.payments");
  await claim("tenant/web");
  assert.deepEqual(mapped(), [], "nobody inherits it");
});

test("a name becomes free when the namespace or the Service is deleted", async (t) => {
  const { api, services, claim, mapped, pass, plan } = await cluster(t);
  await claim("tenant/web", "api.payments", "shop.dev");
  assert.deepEqual(mapped(), []);
  api.unset(NAMESPACES, "payments");
  services.remove("dev/shop");
  await settled();
  await pass(20);
  plan.takeChanges();
  assert.deepEqual(mapped(), ["api.payments", "shop.dev"]);
});

test("a new leader keeps the names that an earlier leader published", async (t) => {
  const { claim, mapped, plan } = await cluster(t);
  await claim("tenant/web", "api.payments", "db.payments");
  assert.deepEqual(mapped(), []);
  const line = { name: "api.payments", addresses: ["10.96.0.1"], order: 3, holder: "tenant", target: "edge" };
  plan.setPublished((name) => (name === "api.payments" ? line : undefined));
  plan.takeChanges();
  assert.deepEqual(mapped(), ["api.payments"]);
});
