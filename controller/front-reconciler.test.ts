import assert from "node:assert/strict";
import { test } from "node:test";
import {
  DOCUMENT,
  direct,
  discovered,
  frontPath,
  frontsRig,
  lead,
  NAMESPACE,
  PUBLISHED,
  passHours,
  proxyAt,
  SLICES,
  target,
  told,
  written,
} from "#test/fakes/fronts-rig.ts";
import { refusal } from "#test/fakes/memory-kube.ts";
import { targetsObject } from "#test/published.ts";

type Rig = Awaited<ReturnType<typeof frontsRig>>;
const namesTold = (rig: Rig) => told(rig).map(({ name }) => name);
const portsTold = (rig: Rig) => told(rig).map(({ name, ports }) => `${name} ${ports.map((each) => each.listenPort)}`);
const warned = ({ log }: Rig) => log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields);

test("the proxies' document is written before the fronts; an address counts once every proxy listens", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")], found: [target("found")] });
  proxyAt(rig, "10.0.0.1");
  await rig.pass(20);
  await lead(rig, "edge", "found");
  assert.deepEqual(written(rig), [PUBLISHED, "APPLY switchback-edge", "APPLY switchback-found", PUBLISHED]);
  assert.deepEqual(
    told(rig).map(({ name, clusterIPs, upstream }) => [name, clusterIPs, upstream]),
    [
      ["edge", ["198.51.100.1"], "edge.infra.svc.cluster.local."],
      ["found", ["198.51.100.2"], "found.infra.svc.cluster.local."],
    ],
  );
  const unknown = ["edge", "found"].map((name) => ({ name, clusterIPs: [] }));
  assert.deepEqual(rig.fronts.targets(), unknown);
  rig.bound.set("10.0.0.1", ["edge"]);
  const { changes } = rig.state;
  await rig.pass(500);
  assert.deepEqual(rig.fronts.targets(), [{ name: "edge", clusterIPs: ["198.51.100.1"] }, unknown[1]]);
  assert.ok(rig.state.changes > changes, "it is reported");
  rig.bound.set("10.0.0.1", ["edge", "found"]);
  await rig.pass(500);
  assert.deepEqual(rig.fronts.targets()[1], { name: "found", clusterIPs: ["198.51.100.2"] });
  assert.deepEqual(written(rig), [], "what stands there already is not written again");
});

for (const [what, path] of [
  ["document", `${NAMESPACE}/configmaps`],
  ["front Services", `${NAMESPACE}/services`],
  ["proxies", SLICES],
] as const) {
  test(`nothing is written before the ${what} have been listed`, async (t) => {
    const rig = await frontsRig(t, { configured: [target("edge")], silent: [path] });
    assert.equal(rig.fronts.synced, false);
    await lead(rig, "edge");
    await rig.pass(10_000);
    assert.deepEqual(written(rig), []);
    const { changes } = rig.state;
    rig.speak();
    await rig.pass(100);
    assert.equal(rig.fronts.synced, true);
    assert.ok(rig.state.changes > changes, "it is reported");
    assert.deepEqual(written(rig).slice(0, 2), [PUBLISHED, "APPLY switchback-edge"]);
  });
}

test("a follower writes nothing, and knows the addresses without asking the proxies", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")] });
  proxyAt(rig, "10.0.0.1");
  rig.kube.put(frontPath("edge"), {
    metadata: { labels: { "switchback.dev/target": "edge" } },
    spec: { clusterIPs: ["198.51.100.50"] },
  });
  rig.fronts.use(new Set(["edge"]));
  await rig.pass(10_000);
  assert.deepEqual(written(rig), []);
  assert.deepEqual(rig.fronts.targets(), [{ name: "edge", clusterIPs: ["198.51.100.50"] }]);
  const published = rig.fronts.published().map(({ name, clusterIPs }) => ({ name, clusterIPs }));
  assert.deepEqual(published, rig.fronts.targets(), "the front shows it, without a document");
  rig.fronts.lead(rig.term.signal);
  assert.deepEqual(rig.fronts.targets(), [{ name: "edge", clusterIPs: [] }], "the leader asks");
});

test("the front of an unused discovered target is removed after a day", async (t) => {
  const rig = await frontsRig(t, { found: [target("a"), target("b")] });
  await lead(rig, "a", "b");
  const since = new Date().toISOString();
  rig.fronts.use(new Set(["a"]));
  await rig.pass(100);
  const unused = told(rig).map(({ name, unusedSince }) => `${name} ${unusedSince}`);
  assert.deepEqual(unused, ["a undefined", `b ${since}`]);
  await passHours(t, 23);
  written(rig);
  assert.equal(told(rig).length, 2);
  await rig.pass(3_599_800 - 100, 1_000);
  assert.deepEqual(written(rig), []);
  await rig.pass(300);
  assert.deepEqual(written(rig), ["DELETE switchback-b", PUBLISHED], "no later than that");
  assert.deepEqual(namesTold(rig), ["a"]);
});

const front = (name: string, targetPort: number) => ({
  metadata: { labels: { "switchback.dev/target": name } },
  spec: { ports: [{ port: 443, targetPort }] },
});

test("the front of a target in use stays, also if the document, its Service and its port are lost", async (t) => {
  const objects = { [frontPath("a")]: front("a", 16_000), [frontPath("c")]: front("c", 16_000) };
  const rig = await frontsRig(t, { found: [target("a")], objects });
  await lead(rig, "a", "c");
  assert.ok(rig.kube.at(frontPath("c")), "pods may hold its ClusterIP");
});

test("a front that the document does not list is listed with its port and kept like an unused target", async (t) => {
  const [a, b, c] = [front("a", 16_000), front("b", 16_001), front("c", 16_000)];
  const objects = {
    [frontPath("a")]: a,
    [frontPath("b")]: b,
    [frontPath("c")]: c,
    [frontPath("d")]: front("d", 16_003),
  };
  const rig = await frontsRig(t, { found: [target("a"), target("b")], objects });
  await lead(rig, "a");
  assert.deepEqual(portsTold(rig), ["a 16000", "b 16001", "d 16003"]);
  assert.equal(rig.kube.at(frontPath("c")), undefined, "the proxies listen on its port for another target");
  await passHours(t, 23);
  rig.fronts.use(new Set(["a", "b"]));
  await rig.pass(100);
  written(rig);
  await rig.pass(3_599_500, 1_000);
  assert.deepEqual(written(rig), []);
  await rig.pass(1_000);
  assert.deepEqual(written(rig), ["DELETE switchback-d", PUBLISHED]);
  assert.deepEqual(portsTold(rig), ["a 16000", "b 16001"]);
});

test("a front that the document does not list is no evidence that its target expects a header", async (t) => {
  const rig = await frontsRig(t, { objects: { [frontPath("a")]: front("a", 16_000) } });
  const asked = { port: 443, protocol: "v1", stated: "nobody" } as const;
  rig.catalog.others.set("a", { ...discovered(target("a")), ports: [asked] });
  await lead(rig, "a");
  await rig.pass(10_000);
  assert.deepEqual(
    told(rig).map(({ name, upstreamIPs, unusedSince }) => [name, upstreamIPs, unusedSince]),
    [["a", ["203.0.113.80"], undefined]],
    "pods may hold its address",
  );
  assert.equal(rig.headers.against("a")?.code, "header-unknown");
});

test("a front that cannot be deleted is retried, and remembered until another target needs its port", async (t) => {
  /** Its name leads to the same port as that of `a`. */
  const other = "t17722";
  const rig = await frontsRig(t, { found: [target("a"), target(other)], discovery: { keepSeconds: 60 } });
  await lead(rig, "a");
  rig.fronts.use(new Set());
  await rig.pass(100);
  written(rig);
  rig.kube.onWrite = ({ method, path }) => {
    if (method === "DELETE") throw refusal(path, 403);
  };
  await rig.pass(60_000);
  assert.deepEqual(namesTold(rig), ["a"]);
  assert.deepEqual(warned(rig), [{ code: "targets-not-written" }]);
  rig.fronts.use(new Set([other]));
  await rig.pass(100);
  assert.deepEqual(portsTold(rig), [`${other} 17272`]);
  rig.kube.onWrite = () => {};
  written(rig);
  await rig.pass(5_200);
  assert.deepEqual(written(rig), ["DELETE switchback-a"]);
});

test("a front that cannot be written does not block other fronts; it is retried after five seconds", async (t) => {
  const configured = ["a", "b", "c"].map((name) => target(name));
  const rig = await frontsRig(t, { configured });
  rig.kube.onWrite = ({ path }) => {
    if (path === frontPath("b")) throw refusal(path, 503);
  };
  await lead(rig);
  assert.deepEqual(
    ["a", "b", "c"].map((name) => rig.kube.at(frontPath(name)) !== undefined),
    [true, false, true],
  );
  assert.deepEqual(warned(rig), [{ code: "targets-not-written" }]);
  assert.ok(rig.fronts.targets()[0]?.clusterIPs.length, "those that stand are expected to be listened on");
  written(rig);
  for (let round = 0; round < 20; round += 1) {
    rig.fronts.use(new Set());
    await rig.pass(100);
  }
  assert.deepEqual(written(rig), [], "rounds without news try nothing again");
  rig.kube.onWrite = () => {};
  written(rig);
  await rig.pass(5_200);
  assert.ok(written(rig).includes("APPLY switchback-b"));
});

test("while the document cannot be written, no front is written, and no name gets an address", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")] });
  rig.kube.onWrite = ({ path }) => {
    if (path === DOCUMENT) throw refusal(path, 500);
  };
  await lead(rig);
  assert.deepEqual(written(rig), [PUBLISHED]);
  let documents = 0;
  rig.kube.onWrite = ({ path }) => {
    if (path === DOCUMENT && ++documents > 1) throw refusal(path, 500);
  };
  await rig.pass(5_000);
  assert.deepEqual(written(rig).slice(0, 2), [PUBLISHED, "APPLY switchback-edge"]);
  assert.deepEqual(rig.fronts.targets(), [{ name: "edge", clusterIPs: [] }]);
});

test("a new leader keeps the addresses that pods may hold, and does not wait for the proxies there", async (t) => {
  const published = ["edge", "found", "kept", "idle"].map((name, index) => ({
    name,
    upstream: "u",
    ports: [{ port: 443, listenPort: 16_000 + index, upstreamPort: 443, protocol: "v1" as const }],
    clusterIPs: [`198.51.100.${70 + index}`],
  }));
  const plain = { name: "plain", upstream: "u", ports: [], clusterIPs: ["198.51.100.79"] };
  const rig = await frontsRig(t, {
    configured: [target("edge"), direct("plain"), target("fresh"), target("idle")],
    found: [target("found")],
    objects: {
      [DOCUMENT]: targetsObject([...published, plain]),
    },
  });
  proxyAt(rig, "10.0.0.1");
  await rig.pass(20);
  rig.fronts.use(new Set(["edge", "found", "stranger"]));
  rig.catalog.others.set("stranger", discovered(target("stranger")));
  rig.fronts.lead(rig.term.signal);
  const now = new Map(rig.fronts.targets().map(({ name, clusterIPs }) => [name, clusterIPs.join()]));
  assert.deepEqual(Object.fromEntries(now), {
    edge: "198.51.100.70",
    plain: "198.51.100.79",
    fresh: "",
    idle: "198.51.100.73",
    found: "198.51.100.71",
    stranger: "",
  });
  await rig.pass(100);
  const addressOf = (name: string) =>
    (rig.kube.at(frontPath(name))?.spec as { clusterIPs: string[] } | undefined)?.clusterIPs.join();
  assert.equal(addressOf("edge"), "198.51.100.70");
  assert.equal(addressOf("kept"), "198.51.100.72", "by the document, for pods that still hold it");
  assert.equal(addressOf("fresh"), "198.51.100.1");
  assert.equal(addressOf("stranger"), "198.51.100.2", "nobody published it");
});

test("a target without a relay has the address of its Service, also after the Service is deleted", async (t) => {
  const serviceIPs = ["198.51.100.61"];
  const fixed = [
    direct("fixed", { clusterIPs: ["198.51.100.60"] }),
    direct("host", { upstream: { host: "192.0.2.1" }, clusterIPs: ["192.0.2.1"] }),
    target("relayed"),
  ];
  const rig = await frontsRig(t, { configured: fixed });
  const addresses = () =>
    Object.fromEntries(rig.fronts.targets().map(({ name, clusterIPs }) => [name, clusterIPs.join()]));
  rig.catalog.config = [{ ...direct("plain"), serviceIPs }, ...fixed];
  await lead(rig);
  const expected = { plain: "198.51.100.61", fixed: "198.51.100.60", host: "192.0.2.1" };
  assert.deepEqual({ ...addresses(), ...expected }, addresses());
  for (const gone of [{ ...direct("plain"), serviceIPs: [] }, direct("plain")]) {
    rig.catalog.config = [gone, ...fixed];
    rig.catalog.changed();
    await rig.pass(100);
    assert.equal(addresses().plain, "198.51.100.61");
  }
});

test("without discovery only configured fronts are written, and other existing fronts stay unchanged", async (t) => {
  const rest = (name: string, listenPort: number, unusedSince?: string) => ({
    name,
    upstream: "u",
    ports: [{ port: 443, listenPort, upstreamPort: 443, protocol: "v1" as const }],
    clusterIPs: [],
    unusedSince,
  });
  const targets = [
    rest("left", 16_000),
    rest("old", 16_001, "2020-01-01T00:00:00.000Z"),
    rest("lapsed", 16_002, undefined),
  ];
  const rig = await frontsRig(t, {
    configured: [target("edge"), target("lapsed")],
    discovery: { enabled: false },
    objects: {
      [DOCUMENT]: targetsObject(targets),
      [frontPath("old")]: { metadata: { labels: { "switchback.dev/target": "old" } } },
    },
  });
  rig.catalog.config = [target("edge")];
  await lead(rig);
  assert.deepEqual(written(rig), [PUBLISHED, "APPLY switchback-edge", PUBLISHED]);
  // Listeners of what is no longer in force stay, those of what is given up go.
  assert.deepEqual(namesTold(rig), ["edge", "lapsed", "left"]);
  assert.ok(rig.kube.at(frontPath("old")), "the right to delete it is missing");
});

test("a term that ended before or during a run writes no more and reports no failure", async (t) => {
  const rig = await frontsRig(t, { configured: [target("edge")] });
  rig.fronts.use(new Set());
  rig.fronts.lead(AbortSignal.abort());
  await rig.pass(10_000);
  assert.deepEqual(written(rig), []);
  rig.kube.onWrite = ({ path }) => {
    if (path === DOCUMENT) rig.term.abort();
  };
  await lead(rig);
  await rig.pass(10_000);
  assert.deepEqual(written(rig), [PUBLISHED]);
  assert.deepEqual(rig.log.messages, []);
});

// A tenant deletes a discovered Service, or changes it to an ExternalName. The proxies must not follow its name while
// pods hold the address of its front Service.

test("a target whose Service is deleted has no upstream; it keeps its front and port, and can come back", async (t) => {
  const rig = await frontsRig(t, { found: [target("lb")] });
  proxyAt(rig, "10.0.0.1");
  rig.bound.set("10.0.0.1", ["lb"]);
  rig.fronts.use(new Set(["lb"]));
  rig.fronts.lead(rig.term.signal);
  await rig.pass(300);
  const [before] = told(rig);
  assert.deepEqual(before?.upstreamIPs, ["203.0.113.80"]);
  assert.deepEqual(rig.fronts.targets()[0]?.clusterIPs, before?.clusterIPs);

  rig.catalog.others.delete("lb");
  rig.catalog.changed();
  rig.bound.set("10.0.0.1", []);
  await rig.pass(20);
  const [gone] = told(rig);
  assert.deepEqual([gone?.upstreamIPs, gone?.ports, gone?.clusterIPs], [[], before?.ports, before?.clusterIPs]);
  assert.ok(rig.kube.at(frontPath("lb")));
  await rig.pass(20_000, 100);
  assert.deepEqual(
    rig.log.lines.filter(({ fields }) => "code" in fields && fields.code === "proxy-not-listening"),
    [],
    "nobody waits for it",
  );

  rig.catalog.others.set("lb", discovered(target("lb"), ["203.0.113.81"]));
  rig.catalog.changed();
  await rig.pass(20);
  const [back] = told(rig);
  assert.deepEqual([back?.upstreamIPs, back?.ports], [["203.0.113.81"], before?.ports]);
  assert.deepEqual(rig.fronts.targets()[0]?.clusterIPs, [], "its names wait until the proxies listen again");
  rig.bound.set("10.0.0.1", ["lb"]);
  await rig.pass(300);
  assert.deepEqual(rig.fronts.targets()[0]?.clusterIPs, before?.clusterIPs);
  await rig.fronts.stop();
});
