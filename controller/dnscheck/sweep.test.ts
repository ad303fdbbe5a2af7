import assert from "node:assert/strict";
import { test } from "node:test";
import { renderHosts } from "#hostmap/hosts-text.ts";
import { NO_SERVICE, pipelineRig, viewOf } from "#test/fakes/pipeline-rig.ts";
import { LeaderMap } from "../leader-map.ts";

// Which names are looked up in the cluster's DNS, and when.

const LB = "203.0.113.9";
const CDN = "198.51.100.50";
const FRONT = "10.96.0.9";
const SWEEP_MS = 61_000;
const CLUSTER = "kubernetes.default.svc.cluster.local";
const INTERNAL = "10.1.0.9";
const NAME = "shop.example.com";
const PUBLISHED = { [NAME]: "edge" };

const addresses = () => ({
  targets: { edge: [LB], internal: [INTERNAL], six: ["2001:db8::9"] } as Record<string, readonly string[]>,
  own: [FRONT],
});
const namesOf = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}.example.com`);
const of = (namespace: string, created = "2026-01-01T00:00:00Z") => ({
  from: { kind: "Ingress", namespace, name: "web" },
  created,
});

test("at most 8 look-ups run at once, two of one namespace, and at most 160 begin in a second", async (t) => {
  const { set, sync, pass, asked, state } = pipelineRig(t, { addresses: addresses() });
  await sync();
  state.slow = "";
  set("a", "edge", namesOf("a", 50), of("one"));
  await pass(200);
  assert.equal(state.most, 2);
  for (let index = 0; index < 20; index += 1) set(`o${index}`, "edge", namesOf(`o${index}-`, 10), of(`n${index}`));
  await pass(200);
  assert.equal(state.most, 8);
  state.slow = undefined;
  asked.length = 0;
  await pass(1_000);
  assert.ok(asked.length >= 80 && asked.length <= 168, `${asked.length}`);
});

for (const also of [[], [NAME]]) {
  const whose = also.length > 0 ? "that lists the name, too," : "that does not list the name";
  test(`600 slow names of a tenant ${whose} do not delay a neighbour's new name`, async (t) => {
    const { set, sync, pass, state, results, records } = pipelineRig(t, { addresses: addresses() });
    await sync();
    const bad = namesOf("bad", 600);
    for (const name of bad) records.set(name, new Error("ESERVFAIL"));
    set("bad", "edge", [...bad, ...also], of("tenant"));
    await pass(100);
    state.slow = "bad";
    await pass(100);
    records.set(NAME, [CDN]);
    set("web");
    await pass(200);
    assert.deepEqual(results("web"), ["dns-elsewhere"]);
    records.set(NAME, [LB]);
    await pass(4 * SWEEP_MS, 500);
    assert.deepEqual(results("web"), ["edge!"], "nor do they make its sweeps longer");
  });
}

test("everything pauses while DNS does not answer for the cluster; new names are mapped after 2 s", async (t) => {
  const before = { [CLUSTER]: new Error("ETIMEOUT") };
  const setting = { addresses: addresses(), clusterDomain: "cluster.local", before };
  const { set, sync, pass, records, asked, results, log } = pipelineRig(t, setting);
  set("a");
  await sync();
  await pass(2_600);
  assert.deepEqual(results("a"), ["edge"]);
  set("b", "edge", ["b.example.com"]);
  await pass(1_800);
  assert.deepEqual(results("b"), ["dns-not-verified?"]);
  await pass(800);
  assert.deepEqual(results("b"), ["edge"]);
  const warned = () => log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields);
  await pass(SWEEP_MS);
  assert.deepEqual(warned(), [{ code: "dns-unreachable" }]);
  assert.deepEqual(new Set(asked), new Set([CLUSTER]));
  records.set(CLUSTER, ["10.96.0.1"]).set("b.example.com", [CDN]);
  await pass(2_500);
  assert.deepEqual(results("b"), ["dns-elsewhere"]);
});

test("20,000 new names of a tenant wait no longer than 3 s while DNS is down", async (t) => {
  const before = { [CLUSTER]: new Error("ETIMEOUT") };
  const setting = { addresses: addresses(), clusterDomain: "cluster.local", before, quota: 30_000 };
  const { set, sync, pass, plan } = pipelineRig(t, setting);
  for (let index = 0; index < 20; index += 1) set(`o${index}`, "edge", namesOf(`o${index}-`, 1_000));
  await sync();
  await pass(2_900, 100);
  assert.equal(plan.planned.size, 20_000);
});

for (const [what, place, answer] of [
  ["DNS is down", CLUSTER, new Error("ETIMEOUT")],
  ["their look-ups fail", "example.com", new Error("ESERVFAIL")],
  ["DNS has the map's own address", "example.com", [FRONT]],
] as const) {
  test(`a new leader leaves what DNS may have decided before, while ${what}`, async (t) => {
    const [moved = "", first = "", later = ""] = namesOf("n", 3);
    const setting = { addresses: addresses(), clusterDomain: "cluster.local", before: { [CLUSTER]: ["10.96.0.1"] } };
    const published = { [moved]: "internal", [first]: "internal", [later]: "internal" };
    const { set, sync, pass, records, plan, results, answers } = pipelineRig(t, { ...setting, published });
    answers.set("none", { code: "no-address", text: "its status is empty", byClass: undefined });
    for (const name of place === CLUSTER ? [CLUSTER] : [moved, first, later]) records.set(name, answer);
    set("a", "edge", [moved]);
    set("b", "none", [first]);
    await sync();
    await pass(11 * 60_000, 500);
    assert.deepEqual([results("a"), results("b")], [["dns-not-verified?"], ["dns-not-verified?"]]);
    assert.ok(plan.isUndecided(moved) && plan.isUndecided(first), "they stay published");
    set("c", "edge", [later]);
    await pass(3_000);
    assert.deepEqual(results("c"), ["edge"], "an object that came later decides, though its name has a target");
    for (const name of [moved, first]) records.set(name, [INTERNAL]);
    records.set(CLUSTER, ["10.96.0.1"]);
    await pass(SWEEP_MS + 2_500, 500);
    assert.deepEqual([results("a"), results("b")], [["internal!"], ["internal!"]]);
  });
}

test("a published name whose holder does not wait for DNS has no gap while DNS is down", async (t) => {
  const before = { [CLUSTER]: new Error("ETIMEOUT") };
  const setting = { addresses: addresses(), clusterDomain: "cluster.local", before, published: PUBLISHED };
  const { set, sync, pass, plan, results } = pipelineRig(t, setting);
  set("other", "edge", [NAME], of("other"));
  await sync();
  await pass(3_000);
  assert.deepEqual([results("other"), plan.planned.get(NAME)?.target], [["edge"], "edge"]);
});

test("the addresses of other tools are ours, too", async (t) => {
  const before = {
    "hairpin-proxy.hairpin-proxy.svc.cluster.local": ["10.96.0.77"],
    "shop.example.com": ["10.96.0.77"],
  };
  const setting = { addresses: addresses(), clusterDomain: "cluster.local", before };
  const { set, sync, pass, results } = pipelineRig(t, setting);
  set("a");
  await sync();
  await pass(200);
  assert.deepEqual(results("a"), ["edge"]);
});

test("one family may fail: the other can confirm a mapping, but is no evidence against it", async (t) => {
  const { set, sync, pass, records, results, answers, plan } = pipelineRig(t, { addresses: addresses() });
  for (const name of ["here.example.com", "cdn.example.com", "first.example.com", "two.example.com"])
    records.set(`${name}/6`, new Error("ESERVFAIL")).set(name, [name.startsWith("cdn") ? CDN : LB]);
  records.set("six.example.com", ["2001:DB8:0::9"]).set("both.example.com", [LB, "2001:db8::1"]);
  set("a", "edge", ["here.example.com", "cdn.example.com", "both.example.com"]);
  set("b", "six", ["six.example.com"]);
  answers.set("none", { ...NO_SERVICE, byClass: undefined });
  set("c", "none", ["first.example.com"]);
  set("d", "edge", ["two.example.com"]);
  set("e", "six", ["two.example.com"], of("other", "2025-01-01T00:00:00Z"));
  await sync();
  await pass(100);
  const all = ["a", "b", "c", "d", "e"].flatMap(results);
  assert.deepEqual(all, ["edge!", "edge", "edge!", "six!", "edge!", "edge!", "six"]);
  assert.equal(plan.planned.get("two.example.com")?.target, "edge");
});

test("three equal sweeps take a mapping away, and give it back", async (t) => {
  const { records, pass, set, sync, results } = pipelineRig(t, { addresses: addresses() });
  records.set(NAME, [LB]);
  set("a");
  await sync();
  for (const [answer, before, after] of [
    [CDN, "edge!", "dns-elsewhere"],
    [LB, "dns-elsewhere", "edge!"],
  ] as const) {
    records.set(NAME, [answer]);
    await pass(2 * SWEEP_MS);
    assert.deepEqual(results("a"), [before]);
    await pass(SWEEP_MS);
    assert.deepEqual(results("a"), [after]);
  }
});

for (const { what, at = "edge", shop = "edge", later = shop, other, holder = "shop" } of [
  { what: "shop" },
  { what: "shop and other", other: "internal" },
  { what: "shop without evidence, and other", shop: "none", other: "internal" },
  { what: "shop, whose object changes meanwhile, and other", later: "six", other: "internal" },
  { what: "shop at a target that is gone, and other", at: "gone", other: "none" },
  { what: "shop at a host name, and other", at: "named", shop: "named", other: "internal", holder: "other" },
]) {
  test(`a new leader moves a name of ${what} after ${at === "gone" ? "one sweep" : "three sweeps"}`, async (t) => {
    const setting = { addresses: addresses(), published: { [NAME]: at } };
    const { answers, set, sync, pass, records, plan, servicesChanged } = pipelineRig(t, setting);
    answers.set("none", { ...NO_SERVICE, byClass: undefined });
    records.set(NAME, [CDN]);
    set("shop", shop);
    if (other !== undefined) set("other", other, [NAME], of("other"));
    await sync();
    records.set(NAME, [INTERNAL]);
    const target = () => (plan.isUndecided(NAME) ? at : plan.planned.get(NAME)?.target);
    await pass(SWEEP_MS);
    assert.equal(target(), at === "gone" ? "internal" : at);
    await pass(SWEEP_MS);
    set("shop", later);
    await pass(SWEEP_MS);
    servicesChanged();
    await pass(100);
    assert.deepEqual([target(), plan.planned.get(NAME)?.holder], ["internal", holder]);
  });
}

test("a new name waits at most 2 s for its first answer; a late answer still counts", async (t) => {
  const { records, pass, set, sync, results, state } = pipelineRig(t, { addresses: addresses() });
  await sync();
  records.set(NAME, [INTERNAL]);
  state.slow = "";
  set("a");
  await pass(1_900);
  assert.deepEqual(results("a"), ["dns-not-verified?"]);
  await pass(700);
  assert.deepEqual(results("a"), ["edge"]);
  state.slow = undefined;
  await pass(100);
  assert.deepEqual(results("a"), ["internal!"]);
});

test("a name of two objects waits for its first answer, also if only the target of one has addresses", async (t) => {
  const { set, sync, pass, records, plan, state } = pipelineRig(t, { addresses: addresses(), published: PUBLISHED });
  records.set(NAME, [LB]);
  state.slow = "";
  set("holder", "without-addresses");
  set("other", "internal", [NAME], of("other"));
  await sync();
  await pass(500);
  assert.deepEqual([plan.planned.get(NAME), plan.isUndecided(NAME)], [undefined, true], "it stays published");
  state.slow = undefined;
  await pass(500);
  assert.equal(plan.planned.get(NAME)?.target, "edge", "DNS leads the object of the other namespace there");
});

test("an object that claims a name for two targets is steady, and DNS decides about both", async (t) => {
  const setting = { addresses: addresses(), published: PUBLISHED };
  const { see, sync, pass, results, records, servicesChanged } = pipelineRig(t, setting);
  see("a", [viewOf(NAME, "edge"), viewOf(NAME, "internal")]);
  await sync();
  servicesChanged();
  await pass(1_000);
  assert.deepEqual(results("a"), ["edge", "internal"]);
  records.set(NAME, ["198.51.100.77"]);
  await pass(4 * SWEEP_MS);
  assert.deepEqual(results("a"), ["dns-elsewhere", "dns-elsewhere"]);
});

for (const [what, ends, expected] of [
  ["stays", false, "edge!"],
  ["is gone", true, "internal"],
] as const) {
  test(`an answer that says nothing about the claims of its time; the record ${what}: ${expected}`, async (t) => {
    const { set, sync, pass, records, results } = pipelineRig(t, { addresses: addresses() });
    records.set(NAME, [LB]);
    set("a", "without-addresses");
    set("b", "without-addresses", [NAME], of("other"));
    await sync();
    await pass(500);
    if (ends) records.delete(NAME);
    await pass(3 * SWEEP_MS, 500);
    set("c", "internal", [NAME], of("third"));
    await pass(100);
    assert.deepEqual([results("a"), results("c")], [["without-addresses"], [expected]]);
  });
}

test("of a tenant's 40 names only those within the quota are looked up, and a neighbour's", async (t) => {
  const { set, sync, pass, records, asked } = pipelineRig(t, { addresses: addresses(), quota: 10 });
  for (const name of namesOf("n", 40)) records.set(name, [CDN]);
  set("tenant", "edge", namesOf("n", 40), of("tenant"));
  set("shop");
  await sync();
  await pass(3 * SWEEP_MS, 500);
  const all = new Set(asked);
  assert.ok(all.has("shop.example.com"));
  // Before the plan has counted them, those look-ups begin for which there is room at once.
  assert.ok(all.size - 1 >= 10 && all.size - 1 <= 18, `${all.size}`);
});

test("a name that gets into the quota is looked up before it is mapped", async (t) => {
  const { set, sync, pass, records, plan } = pipelineRig(t, { addresses: addresses(), quota: 10 });
  for (const name of namesOf("old", 11)) records.set(name, [LB]);
  records.set("young.example.com", [CDN]);
  set("old", "edge", namesOf("old", 11), of("tenant"));
  await sync();
  await pass(1_000);
  const from = { kind: "Ingress", namespace: "tenant", name: "young" };
  set("young", "edge", ["young.example.com"], { from, created: "2026-02-01T00:00:00Z" });
  await pass(5_000);
  const young = () => [...plan.decisionsOf("young")].map(({ decision }) => !decision.mapped && decision.reason.code);
  assert.deepEqual(young(), ["namespace-quota"]);
  set("old", "edge", namesOf("old", 9), of("tenant"));
  await pass(1_000);
  assert.deepEqual([young(), plan.planned.has("young.example.com")], [["dns-elsewhere"], false]);
});

test("answers of a stored cluster decide at once and finally; no name is looked up", async (t) => {
  const known = new Map([
    ["here.example.com", [LB]],
    ["cdn.example.com", [CDN]],
    ["none.example.com", []],
    ["own.example.com", [FRONT]],
  ]);
  const { set, sync, results, asked } = pipelineRig(t, { addresses: addresses(), known });
  const names = [...known.keys(), "unasked.example.com"];
  set("a", "edge", names);
  await sync();
  assert.deepEqual(results("a"), ["edge!", "dns-elsewhere", "edge", "edge", "edge"]);
  assert.deepEqual(asked, []);
});

// A publisher gives the map to the cluster's DNS. The controller asks that DNS about the names of the map.
for (const mode of ["auto", "enforce", "warn"] as const) {
  for (const before of [[], ["shop.example.com", "*.wild.example.com"]]) {
    const who = before.length === 0 ? "a first" : "a new";
    test(`${mode}: ${who} controller keeps its names, though DNS answers with what it publishes`, async (t) => {
      const names = ["shop.example.com", "*.wild.example.com"];
      const { set, sync, pass, records, plan, state, claims } = pipelineRig(t, { mode, addresses: addresses() });
      const rules = { vanishSeconds: 60, guardHoldSeconds: 300 };
      const targets = [{ name: "edge", clusterIPs: [FRONT] }];
      const published = new Map(before.map((name) => [name, { name, addresses: [FRONT], holder: "shop" }]));
      const map = new LeaderMap(rules, plan, published, targets);
      const answer = () => {
        for (const name of names) {
          const isOurs = map.names.lineOf(name) !== undefined;
          records.set(name.replace("*", "switchback-dns-check"), [isOurs ? FRONT : LB]);
        }
      };
      answer();
      set("a", "edge", names);
      await sync();
      const takeAll = () => new Map([...plan.planned]);
      map.update(takeAll(), targets, state.now, true);
      if (before.length === 0) await pass(2_000);
      for (let minute = 0; minute < 15; minute += 1) {
        map.update(takeAll(), targets, state.now, true);
        for (const name of names)
          if (!plan.planned.has(name) && !plan.isUndecided(name)) map.names.release(name, state.now);
        map.settle(state.now);
        const text = renderHosts(map.names.lines.values());
        for (const name of names) assert.ok(text.includes(` ${name}`), `${name} is gone after ${minute} minutes`);
        answer();
        await pass(60_000, 500);
      }
      assert.ok(claims.get("a")?.every(({ warning }) => warning === undefined));
    });
  }
}
