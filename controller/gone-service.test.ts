import assert from "node:assert/strict";
import { test } from "node:test";
import { discovered, frontPath, frontsRig, proxyAt, target, told } from "#test/fakes/fronts-rig.ts";

// A tenant deletes a discovered Service, or changes it to an ExternalName. The proxies must not follow its name while
// pods hold the address of its front Service.

test("a target whose Service is deleted has no upstream; it keeps its front and port, and can come back", async (t) => {
  const rig = await frontsRig(t, { found: [target("lb")] });
  proxyAt(rig, "10.0.0.1");
  rig.bound.set("10.0.0.1", ["lb"]);
  rig.fronts.use(new Set(["lb"]));
  rig.fronts.lead(new Set(), rig.term.signal);
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

test("an unused target follows the ClusterIP of its Service, and has no upstream once that is deleted", async (t) => {
  const rig = await frontsRig(t, { found: [target("lb")] });
  rig.fronts.use(new Set(["lb"]));
  rig.fronts.lead(new Set(), rig.term.signal);
  await rig.pass(300);
  rig.fronts.use(new Set());
  await rig.pass(100);
  rig.catalog.others.set("lb", discovered(target("lb"), ["203.0.113.81"]));
  rig.catalog.changed();
  await rig.pass(20);
  assert.deepEqual(
    told(rig).map(({ upstreamIPs }) => upstreamIPs),
    [["203.0.113.81"]],
  );
  rig.catalog.others.clear();
  rig.catalog.changed();
  await rig.pass(20);
  assert.deepEqual(
    told(rig).map(({ upstreamIPs }) => upstreamIPs),
    [[]],
  );
  await rig.fronts.stop();
});
