import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { DOMAINS_KEY } from "#hostmap/metadata-keys.ts";
import { Plan } from "#hostmap/plan.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { claimOf } from "#test/arbitraries.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { inClusterReason, Namespaces } from "./namespaces.ts";

// A pod's search list turns `api.payments` into the Service `api` of the namespace `payments`. The pod's hosts file
// is read before DNS, so a mapped name would hide the Service.

const NAMESPACES = "/api/v1/namespaces";
const RULES = { allowDomains: [], denyDomains: [], namespaces: [], denyNamespaces: [], maxNamesPerNamespace: 100 };

async function cluster(t: TestContext, { namespaces = ["payments", "vault", "dev"] } = {}) {
  const api = new MemoryKube();
  const services = new Set(["dev/shop"]);
  const add = (namespace: string) => api.set(NAMESPACES, { metadata: { name: namespace } });
  for (const namespace of namespaces) add(namespace);
  const namespaceList = new Namespaces({ client: api.client, log: silentLogger });
  const reasonOf = (name: string) => inClusterReason(name, namespaceList, (key) => services.has(key));
  const plan = new Plan(createClaimPolicy(RULES, "cluster.local"), 100, reasonOf);
  t.after(() => namespaceList.stop());
  namespaceList.start(() => {});
  await settled();
  const claim = (object: string, ...hosts: string[]) => {
    plan.set(
      object,
      hosts.map((host) => claimOf(host, object)),
    );
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
  return { api, add, services, plan, claim, mapped, reasons };
}

test("a name below a namespace is refused, whether such a Service exists or not", async (t) => {
  const { claim, mapped, reasons } = await cluster(t);
  claim("tenant/web", "api.payments", "vault.vault", "VAULT-0.vault.vault", "*.api.payments", "www.example.com");
  assert.deepEqual(mapped(), ["www.example.com"]);
  assert.equal(reasons()["api.payments"], "in-cluster-name");
  assert.equal(reasons()["vault-0.vault.vault"], "in-cluster-name");
});

test("below a public top-level domain, only names of existing Services are refused", async (t) => {
  const { claim, mapped, reasons } = await cluster(t);
  claim("tenant/web", "shop.dev", "www.shop.dev", "blog.dev", "www.blog.dev");
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
  claim("tenant/web", "api.payments", "blog.dev");
  add("payments");
  services.add("dev/blog");
  claim("tenant/web", "api.payments", "blog.dev", "db.payments");
  assert.deepEqual(mapped(), ["api.payments", "blog.dev"]);
  assert.deepEqual(reasons(), {
    "api.payments": "in-cluster-name",
    "blog.dev": "in-cluster-name",
    "db.payments": "in-cluster-name",
  });
  claim("other/web", "api.payments");
  claim("tenant/web");
  assert.deepEqual(mapped(), [], "nobody inherits it");
});

test("a name becomes free when the namespace or the Service is deleted", async (t) => {
  const { api, services, claim, mapped, plan } = await cluster(t);
  claim("tenant/web", "api.payments", "shop.dev");
  assert.deepEqual(mapped(), []);
  api.unset(NAMESPACES, "payments");
  services.delete("dev/shop");
  plan.reevaluateServiceNames();
  plan.takeChanges();
  assert.deepEqual(mapped(), ["api.payments", "shop.dev"]);
});

test("a new leader keeps the names that an earlier leader published", async (t) => {
  const { claim, mapped, plan } = await cluster(t);
  claim("tenant/web", "api.payments", "db.payments");
  assert.deepEqual(mapped(), []);
  const line = { name: "api.payments", addresses: ["10.96.0.1"], order: 3, holder: "tenant", target: "edge" };
  plan.setPublished((name) => (name === "api.payments" ? line : undefined));
  plan.takeChanges();
  assert.deepEqual(mapped(), ["api.payments"]);
});

test("each change of a namespace is reported, with its annotation and labels", async (t) => {
  const api = new MemoryKube();
  const changed: string[] = [];
  const source = new Namespaces({ client: api.client, log: silentLogger });
  t.after(() => source.stop());
  source.follow((name, before, after) => changed.push(`${name} ${before?.domains} ${after?.domains}`));
  const set = (domains: string, labels: Record<string, string> = {}) =>
    api.set(NAMESPACES, { metadata: { name: "shop", labels, annotations: { [DOMAINS_KEY]: domains } } });
  set("example.com", { team: "a" });
  source.start(() => changed.push("synced"));
  await settled();
  assert.deepEqual(changed.splice(0), ["shop undefined example.com", "synced"]);
  assert.deepEqual([...api.whole], [], "only metadata is read");
  assert.deepEqual([source.of("shop")?.labels.team, source.of("web")], ["a", undefined]);
  set("example.org");
  set("");
  api.unset(NAMESPACES, "shop");
  assert.deepEqual(changed, ["shop example.com example.org", "shop example.org ", "shop  undefined"]);
  assert.equal(source.of("shop"), undefined);
});
