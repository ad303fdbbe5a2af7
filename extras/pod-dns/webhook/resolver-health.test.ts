import assert from "node:assert/strict";
import { test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { ResolverHealth } from "./resolver-health.ts";

const SERVICES = ["a.ns.svc.cluster.local", "b.ns.svc.cluster.local"];
const ADDRESSES: Readonly<Record<string, string>> = {
  [SERVICES[0] ?? ""]: "10.96.0.11",
  [SERVICES[1] ?? ""]: "10.96.0.12",
};
const BOTH = ["10.96.0.11", "10.96.0.12"];

/** Two resolvers that answer until the test changes that. */
function rig() {
  const state = {
    now: 0,
    down: new Set<string>(),
    addresses: { ...ADDRESSES } as Record<string, string | undefined>,
    clusterDnsFails: false,
    lookUps: 0,
  };
  const log = new LineLog();
  const health = new ResolverHealth({
    services: SERVICES,
    queries: {
      async addressOf(service) {
        state.lookUps += 1;
        if (state.clusterDnsFails) throw new Error("timeout");
        return state.addresses[service];
      },
      isAnswering: async (address) => !state.down.has(address),
    },
    now: () => state.now,
    log,
  });
  /** Runs this many checks, a second apart. Returns the state after them. */
  const after = async (checks: number): Promise<readonly string[] | string> => {
    for (let count = 0; count < checks; count += 1) {
      await health.check();
      state.now += 1_000;
    }
    const found = health.resolvers();
    return "code" in found ? `${found.code}: ${found.text}` : found;
  };
  return { state, after, log };
}

const NOT_YET = "dns-not-ready: the resolvers of pod DNS were not asked yet";
const RECOVERING = "dns-not-ready: the resolvers of pod DNS answer again, but not yet for long enough";

test("the resolvers are used after their first answers", async () => {
  const { after } = rig();
  assert.equal(await after(0), NOT_YET);
  assert.deepEqual(await after(1), BOTH);
});

for (const address of BOTH) {
  test(`after a failed check of ${address}, three good checks in a row are needed for further use`, async () => {
    const { state, after } = rig();
    await after(1);
    state.down.add(address);
    const service = SERVICES[BOTH.indexOf(address)];
    assert.equal(await after(1), `dns-not-ready: ${service} at ${address} does not answer`);
    state.down.clear();
    assert.equal(await after(2), RECOVERING);
    state.down.add(address);
    await after(1);
    state.down.clear();
    assert.equal(await after(2), RECOVERING, "counted from the last failure");
    assert.deepEqual(await after(1), BOTH);
  });
}

test("a Service without an address is a reason; when it gets an address, it is asked there", async () => {
  const { state, after } = rig();
  const [first = ""] = SERVICES;
  state.addresses[first] = undefined;
  assert.equal(await after(1), `dns-not-ready: the Service ${first} has no address`);
  state.addresses[first] = "10.96.0.99";
  assert.deepEqual(await after(3), ["10.96.0.99", "10.96.0.12"]);
});

test("a recreated Service is found, because its old address does not answer", async () => {
  const { state, after } = rig();
  await after(1);
  state.down.add("10.96.0.11");
  state.addresses[SERVICES[0] ?? ""] = "10.96.0.99";
  await after(1);
  assert.deepEqual(await after(4), ["10.96.0.99", "10.96.0.12"]);
});

test("while the cluster's DNS does not answer, known addresses stay, and a missing address is a reason", async () => {
  const { state, after } = rig();
  state.clusterDnsFails = true;
  assert.equal(await after(1), `dns-not-ready: ${SERVICES[0]} cannot be asked: timeout`);
  state.clusterDnsFails = false;
  assert.deepEqual(await after(3), BOTH);
  state.clusterDnsFails = true;
  assert.deepEqual(await after(100), BOTH);
});

test("without failures, a Service is looked up only once in 30 checks", async () => {
  const { state, after } = rig();
  await after(60);
  assert.equal(state.lookUps, 4);
});

test("an old result does not count", async () => {
  const { state, after } = rig();
  assert.deepEqual(await after(1), BOTH);
  state.now += 10_000;
  assert.equal(await after(0), NOT_YET);
});

test("each change is logged once", async () => {
  const { state, after, log } = rig();
  await after(5);
  state.down.add("10.96.0.12");
  await after(5);
  assert.deepEqual(log.messages, ["pod DNS: used", "pod DNS: not used"]);
});
