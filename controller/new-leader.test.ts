import assert from "node:assert/strict";
import { test } from "node:test";
import { configMaps, controllerRig, lines, NAME, putIngress, untilPublished } from "#test/fakes/controller-rig.ts";
import { until } from "#test/fakes/kube-api.ts";
import { OBJECTS, targetsIn } from "#test/published.ts";

// What a new leader writes while it has not read everything yet.

const SERVICES = "/api/v1/services";
const UPSTREAM = "/api/v1/namespaces/ingress-nginx/services/ingress-nginx-controller";

for (const detect of [false, true]) {
  test(`a new leader relays and asks what was, until Services are listed; detect: ${detect}`, async (t) => {
    const config = { targets: [], discovery: { detect: false } };
    const first = await controllerRig(t, { config });
    await untilPublished(first);
    await first.stop();
    const { kube } = first;
    kube.writes.length = 0;
    const release = kube.hold(SERVICES);
    const next = { targets: [], discovery: { detect } };
    const rig = await controllerRig(t, { kube, prepare: () => {}, upstream: false, config: next });
    const isLeading = () => kube.writes.some(({ path }) => path.endsWith(`leases/${OBJECTS.lease}`));
    await until(() => isLeading() && kube.reads.includes(SERVICES), "the leader to read");
    // Without Services, the leader has nothing more to wait for. It then answers the page after what it writes.
    for (let turns = 0; turns < 50; turns += 1) await rig.page("/readyz");
    release();
    await until(async () => (await rig.page("/readyz")).status === 200, "everything to be read");
    assert.ok(lines(rig).includes(NAME));
    const texts = kube.writes
      .filter(({ path }) => path.endsWith(OBJECTS.targets))
      .map(({ body }) => JSON.stringify(body));
    assert.deepEqual(
      texts.filter((text) => /upstreamIPs[^\]]*\[\]|unusedSince/.test(text)),
      [],
    );
  });
}

test("a new leader relays to a target as before, also if its Service has an invalid annotation", async (t) => {
  const config = { targets: [] };
  const first = await controllerRig(t, { config });
  const { kube } = first;
  const annotate = (value: string) => {
    const { metadata, ...rest } = kube.at(UPSTREAM) ?? {};
    kube.put(UPSTREAM, { ...rest, metadata: { ...metadata, annotations: { "switchback.dev/proxy-protocol": value } } });
  };
  annotate("v2");
  await untilPublished(first);
  const relayed = () => targetsIn(configMaps(kube)).targets;
  await until(() => relayed()[0]?.ports[0]?.protocol === "v2", "the protocol");
  await first.stop();
  const before = relayed();
  annotate("v3");
  const rig = await controllerRig(t, { kube, prepare: () => {}, upstream: false, config });
  putIngress(kube, [NAME, "new.example.com"]);
  await until(async () => (await rig.status()).names.length > 1, "a new name");
  const codes = (await rig.status()).names.map(
    ({ name, warning, reason }) => `${name} ${warning?.code} ${reason?.code}`,
  );
  assert.deepEqual(codes.sort(), ["new.example.com undefined header-unknown", `${NAME} header-unknown undefined`]);
  assert.deepEqual(relayed(), before);
});
