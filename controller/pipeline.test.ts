import assert from "node:assert/strict";
import { test } from "node:test";
import { NO_SERVICE, pipelineRig, viewOf } from "#test/fakes/pipeline-rig.ts";

// The way of names from the views of a source to claims.

const WITHOUT_DNS = { asksDns: false };
const ON_ONE = { ...WITHOUT_DNS, published: { "shop.example.com": "one" } };

test("nothing is decided before Services are known", async (t) => {
  const { set, sourceSynced, resolverSynced, pass, reported, results, pipeline } = pipelineRig(t, WITHOUT_DNS);
  set("a");
  sourceSynced();
  await pass(100);
  assert.deepEqual([reported, pipeline.isRead, pipeline.synced], [[], false, false]);
  resolverSynced();
  await pass(100);
  assert.deepEqual([results("a"), pipeline.isRead, pipeline.synced], [["edge"], true, true]);
});

for (const what of ["fails", "neither answers nor fails for a minute"] as const) {
  test(`nothing is decided until each source has been read; one ${what}: the others wait no longer`, async (t) => {
    const { set, resolverSynced, pass, results, pipeline, state } = pipelineRig(t, WITHOUT_DNS);
    set("a", "other");
    resolverSynced();
    await pass(59_000, 500);
    assert.deepEqual([results("a"), pipeline.isRead], [[], false]);
    if (what === "fails") {
      Object.assign(state, { fails: true, lists: true });
      await pass(200);
      assert.deepEqual(results("a"), [], "another kind of the source is still listed");
      state.lists = false;
    } else await pass(2_000);
    await pass(200);
    assert.deepEqual([results("a"), pipeline.isRead, pipeline.synced], [["other"], true, false]);
  });
}

test("Services that change during each pass keep no new leader from having decided everything", async (t) => {
  const { set, sync, answers, pipeline, servicesChanged } = pipelineRig(t, WITHOUT_DNS);
  answers.get = () => void servicesChanged();
  set("a");
  await sync();
  assert.equal(pipeline.isRead, true);
});

test("equal hints of a namespace are resolved once in a pass; objects with a new answer are reported", async (t) => {
  const { set, sync, pass, answers, resolved, reported, results, servicesChanged } = pipelineRig(t, WITHOUT_DNS);
  answers.set("nginx", NO_SERVICE);
  await sync();
  for (let count = 0; count < 50; count += 1) set(`n${count}`, "nginx", [`n${count}.example.com`]);
  set("t", "traefik", ["t.example.com"]);
  const from = { kind: "Ingress", namespace: "other", name: "web" };
  set("o", "nginx", ["o.example.com"], { from });
  await pass(100);
  assert.equal(resolved.length, 3, "one for each namespace and class");
  answers.set("nginx", "edge");
  reported.length = 0;
  servicesChanged();
  await pass(100);
  assert.deepEqual([reported.length, results("n7")], [51, ["edge"]]);
  reported.length = 0;
  servicesChanged();
  await pass(100);
  assert.deepEqual(reported, []);
});

test("an internal error leaves the names of its objects as they are, and is logged once", async (t) => {
  const { see, set, sync, pass, answers, results, plan, log, servicesChanged } = pipelineRig(t, ON_ONE);
  await sync();
  set("odd", "odd");
  set("odd too", "odd", ["another.example.com"]);
  answers.get = ((name: string) => {
    if (name === "odd") throw new Error("out of ideas");
  }) as typeof answers.get;
  see("broken", [viewOf("a.example.com", "edge", { hints: null as never })]);
  set("web", "edge", ["web.example.com"]);
  await pass(100);
  assert.deepEqual(["odd", "broken", "web"].flatMap(results), ["internal-error?", "internal-error?", "edge"]);
  assert.ok(plan.isUndecided("shop.example.com"), "it stays published");
  servicesChanged();
  await pass(100);
  const logged = log.lines.map(({ fields }) => Object.values(fields)[1]);
  assert.deepEqual(logged, ['"0/odd"', '"0/broken"']);
});

test("a name keeps its target without evidence while it may; a name without a target gets none", async (t) => {
  const setting = { addresses: { targets: { edge: ["203.0.113.9"] } }, ...WITHOUT_DNS };
  const { set, sync, pass, answers, results, plan, servicesChanged, addresses } = pipelineRig(t, setting);
  await sync();
  set("a", "nginx", ["a.example.com"]);
  answers.set("nginx", "edge");
  await pass(100);
  answers.set("nginx", NO_SERVICE);
  servicesChanged();
  set("b", "nginx", ["b.example.com"]);
  await pass(100);
  assert.deepEqual([results("a"), results("b"), plan.planned.size], [["no-service?"], ["no-service"], 1]);
  addresses.targets = {};
  servicesChanged();
  await pass(100);
  assert.deepEqual([results("a"), plan.planned.size], [["no-service"], 0]);
});

test("an object without evidence is decided again when its name gets a line, or loses it", async (t) => {
  const reason = { code: "header-not-expected", text: "it refuses headers" };
  const addresses = { targets: { edge: ["203.0.113.9"] }, against: { edge: reason } };
  const published: Record<string, string> = {};
  const { set, sync, pass, answers, results, pipeline } = pipelineRig(t, { addresses, ...WITHOUT_DNS, published });
  answers.set("nginx", NO_SERVICE);
  for (const object of ["a", "b"]) set(object, "nginx");
  await sync();
  for (const target of ["edge", ""]) {
    published["shop.example.com"] = target;
    pipeline.settled(new Set(["shop.example.com"]));
    await pass(100);
    assert.deepEqual(results("a"), [target === "" ? "no-service" : "header-not-expected"]);
  }
});

test("of several Services, an object gets the one that another name of its namespace gets", async (t) => {
  const { set, sync, pass, answers, results, pipeline, plan } = pipelineRig(t, WITHOUT_DNS);
  answers.set("ambiguous", { code: "several-services", text: "two Services have the labels" });
  set("a", "ambiguous");
  await sync();
  assert.deepEqual(results("a"), ["several-services"]);
  set("b", "edge", ["other.example.com"]);
  await pass(100);
  pipeline.settled(new Set(plan.planned.keys()));
  await pass(100);
  assert.deepEqual(results("a"), ["edge"]);
});

for (const namespace of ["shop", "tenant"]) {
  test(`evidence by class and externalIPs stays; a younger object of ${namespace} changes nothing`, async (t) => {
    const addresses = { targets: { nginx: ["198.51.100.1"] }, external: { nginx: ["203.0.113.9"] } };
    const { set, sync, pass, answers, records, results, plan, servicesChanged } = pipelineRig(t, { addresses });
    answers.set("class-nginx", { ...NO_SERVICE, byClass: "nginx" });
    records.set("shop.example.com", ["203.0.113.9"]);
    set("a", "class-nginx");
    const from = { kind: "Ingress", namespace, name: "b" };
    set("b", "other", ["shop.example.com"], { created: "2026-06-01T00:00:00Z", from });
    await sync();
    for (let times = 0; times < 3; times += 1) {
      servicesChanged();
      await pass(1_000);
      assert.deepEqual([results("a"), plan.planned.get("shop.example.com")?.target], [["nginx"], "nginx"]);
    }
  });
}

test("two objects of a namespace want different targets: that is a conflict, and no instability", async (t) => {
  const { set, sync, pass, results, servicesChanged } = pipelineRig(t, ON_ONE);
  set("a", "one");
  set("b", "two", ["shop.example.com"], { created: "2026-02-01T00:00:00Z" });
  await sync();
  for (let times = 0; times < 5; times += 1) {
    servicesChanged();
    set("b", "two", ["shop.example.com"], { created: "2026-02-01T00:00:00Z" });
    await pass(1_000);
  }
  assert.deepEqual([results("a"), results("b")], [["one"], ["two"]]);
});

test("an object that wants another target twice within a minute is undecided for a minute", async (t) => {
  const web = "Ingress shop/web";
  const { see, set, sync, pass, plan, results } = pipelineRig(t, ON_ONE);
  set(web, "one");
  await sync();
  set(web, "two");
  await pass(1_000);
  assert.deepEqual(results(web), ["two"]);
  set(web, "one");
  await pass(59_000, 500);
  assert.deepEqual([results(web), plan.planned.get("shop.example.com")?.target], [["target-unstable?"], "two"]);
  assert.ok(plan.hasTarget("shop.example.com", "one"), "it stays asked");
  await pass(2_000);
  assert.deepEqual([results(web), plan.planned.get("shop.example.com")?.target], [["one"], "one"]);
  see(web, []);
  set(web, "two");
  await pass(100);
  assert.deepEqual(results(web), ["two"], "an object that is created again has no past");
});
