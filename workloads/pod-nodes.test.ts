import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { silentLogger } from "../telemetry/log.ts";
import { type FakeCall, fakeApi, json, refuse, until } from "../test/fakes/kube-api.ts";
import { PodNodes } from "./pod-nodes.ts";
import { type PodFacts, podFacts } from "./pods.ts";

/** Nobody asks a second time for a pod that could not be read before this has passed. */
const AGAIN_MS = 2_000;

function pod(name: string): PodFacts {
  return podFacts({ metadata: { namespace: "shop", name, uid: `uid-${name}` } });
}

/** Nodes as the API server tells of them: by pod's name; a number is a refusal. */
async function nodes(t: TestContext, bound: Record<string, string | number | undefined>) {
  const clock = { now: 0 };
  const gate = { open: true };
  const held: Array<() => void> = [];
  let atOnce = 0;
  let most = 0;
  const api = await fakeApi(async (call: FakeCall) => {
    most = Math.max(most, ++atOnce);
    if (!gate.open) await new Promise<void>((resolve) => held.push(resolve));
    atOnce -= 1;
    const node = bound[call.path.split("/").at(-1) ?? ""];
    return typeof node === "number" ? refuse(node, "Refused")(call) : json({ spec: { nodeName: node } })(call);
  });
  let changes = 0;
  const known = new PodNodes({
    client: api.client,
    log: silentLogger,
    now: () => clock.now,
    onChange: () => {
      changes += 1;
    },
  });
  const stop = new AbortController();
  t.after(async () => {
    stop.abort();
    for (const release of held) release();
    await api.close();
  });
  return {
    known,
    clock,
    api,
    gate,
    held,
    most: () => most,
    /** One round of reading, to its end. */
    async round(pods: readonly PodFacts[]) {
      const before = changes;
      known.refresh(new Set(pods.map(({ uid }) => uid)), stop.signal);
      await until(() => changes > before, "a round");
    },
    refresh: (pods: readonly PodFacts[]) => known.refresh(new Set(pods.map(({ uid }) => uid)), stop.signal),
  };
}

test("a pod's node is read when it is asked for, once", async (t) => {
  const { known, clock, api, round } = await nodes(t, { web: "node-1", other: "node-2" });
  const [web, other] = [pod("web"), pod("other")];
  assert.equal(known.of(web), undefined);
  await round([web, other]);
  clock.now = AGAIN_MS;
  assert.equal(known.of(web), "node-1");
  assert.equal(known.of(other), undefined);
  await round([web, other]);
  assert.deepEqual(
    api.calls.map(({ path }) => path),
    ["/api/v1/namespaces/shop/pods/web", "/api/v1/namespaces/shop/pods/other"],
  );
  assert.equal(known.pending, false);
});

test("a pod that is not bound, gone, or cannot be read is asked for again after a while", async (t) => {
  const bound: Record<string, string | number | undefined> = { unbound: undefined, gone: 404, refused: 500 };
  const { known, clock, api, round } = await nodes(t, bound);
  const pods = Object.keys(bound).map(pod);
  for (const each of pods) assert.equal(known.of(each), undefined);
  await round(pods);
  assert.equal(known.pending, true);
  clock.now = AGAIN_MS - 1;
  const other = pod("other");
  for (const each of [...pods, other]) assert.equal(known.of(each), undefined);
  bound.other = "node-1";
  await round([...pods, other]);
  assert.equal(api.calls.length, 4);
  clock.now = AGAIN_MS;
  for (const each of pods) {
    bound[each.name] = "node-2";
    known.of(each);
  }
  await round(pods);
  assert.deepEqual(
    pods.map((each) => known.of(each)),
    ["node-2", "node-2", "node-2"],
  );
  assert.equal(known.pending, false);
});

test("as long as a pod is not bound, something is pending", async (t) => {
  const bound: Record<string, string | undefined> = { unbound: undefined };
  const { known, clock, round } = await nodes(t, bound);
  const unbound = pod("unbound");
  known.of(unbound);
  await round([unbound]);
  assert.equal(known.pending, true);
  bound.unbound = "node-1";
  clock.now = AGAIN_MS;
  known.of(unbound);
  await round([unbound]);
  assert.equal(known.pending, false);
});

test("pods that are gone are forgotten, and another of the same name is read anew", async (t) => {
  const bound: Record<string, string> = { web: "node-1" };
  const { known, round, refresh } = await nodes(t, bound);
  const first = pod("web");
  known.of(first);
  await round([first]);
  const second = { ...first, uid: "uid-second" };
  bound.web = "node-2";
  refresh([second]);
  assert.equal(known.of(second), undefined);
  await round([second]);
  assert.equal(known.of(second), "node-2");
  assert.equal(known.of(first), undefined);
});

test("hundreds are read in rounds, eight at a time", async (t) => {
  const pods = Array.from({ length: 200 }, (_, index) => pod(`pod-${index}`));
  const { known, gate, held, api, most, round } = await nodes(
    t,
    Object.fromEntries(pods.map(({ name }) => [name, "node-1"])),
  );
  gate.open = false;
  for (const each of pods) known.of(each);
  const reading = round(pods);
  await until(() => held.length === 8, "eight calls");
  gate.open = true;
  for (const release of held) release();
  await reading;
  assert.equal(api.calls.length, 80);
  await round(pods);
  await round(pods);
  assert.ok(pods.every((each) => known.of(each) === "node-1"));
  assert.deepEqual([api.calls.length, most()], [200, 8]);
});
