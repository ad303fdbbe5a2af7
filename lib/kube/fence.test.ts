import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { Fence, type FencedObject, type Identity, NO_VERSION } from "./fence.ts";

const COLLECTION = "/api/v1/namespaces/sys/configmaps";
const OBJECT: FencedObject = {
  apiVersion: "v1",
  kind: "ConfigMap",
  namespace: "sys",
  name: "one",
  path: `${COLLECTION}/one`,
};

function rig() {
  const kube = new MemoryKube();
  const log = new LineLog();
  const state = { confirmed: 0, refused: 0, over: false };
  const term = () =>
    new Fence({
      client: kube.client,
      log,
      term: {
        confirm: async () => {
          state.confirmed += 1;
          if (state.over) throw new SwitchbackError("term-over", "over");
        },
      },
      onRefused: () => {
        state.refused += 1;
      },
    });
  const seen = (): Identity | undefined => kube.at(OBJECT.path)?.metadata;
  const write = (fence: Fence, text: string, known: { as?: Identity | undefined } = { as: seen() }) =>
    fence.write(OBJECT, known.as, async (precondition) => {
      const metadata = { name: "one", ...precondition };
      const options = { fieldManager: "test", force: true };
      return await kube.client.apply<{ metadata: Identity }>(OBJECT.path, { metadata, data: { text } }, options);
    });
  const text = () => kube.field<{ text: string }>(OBJECT.path, "data").text;
  return { kube, log, state, term, seen, write, text };
}

describe("the writes of a term", () => {
  it("begin with a confirmed Lease, then use the answers to earlier writes", async () => {
    const { kube, state, term, seen, write, text } = rig();
    kube.put(OBJECT.path, { data: { text: "before" } });
    const fence = term();
    const first = seen();
    await write(fence, "a");
    assert.deepEqual([kube.touched, state.confirmed, text()], [[], 1, "a"]);
    // The watch lags: it shows the state before the write.
    await write(fence, "b", { as: first });
    await write(fence, "c");
    await fence.take(OBJECT, seen());
    assert.deepEqual([kube.touched, state.confirmed, text()], [[], 1, "c"]);
  });

  it("give the object a new version even if the first write changed nothing", async () => {
    const { kube, term, seen, write, text } = rig();
    kube.put(OBJECT.path, { data: { text: "before" } });
    const fence = term();
    const before = seen() ?? {};
    // The answer to an apply with equal fields.
    const changeNothing = () => fence.write(OBJECT, seen(), async () => ({ metadata: seen() ?? {} }));
    await changeNothing();
    assert.deepEqual(kube.touched, [OBJECT.path]);
    assert.notEqual(seen()?.resourceVersion, before.resourceVersion);
    // The watch lags: it shows the state before the touch.
    await write(fence, "a", { as: before });
    await changeNothing();
    assert.deepEqual([kube.touched.length, text()], [1, "a"]);
  });

  it("require a touch before the term relies on the object, if the first write failed", async () => {
    const { kube, term, seen, write } = rig();
    kube.put(OBJECT.path, { data: { text: "before" } });
    const fence = term();
    kube.onWrite = ({ path }) => {
      throw refusal(path, 500);
    };
    await assert.rejects(write(fence, "a"), { status: 500 });
    await fence.take(OBJECT, seen());
    assert.deepEqual(kube.touched, [OBJECT.path]);
  });

  it("create an object only if it does not exist", async () => {
    const { kube, state, term, write, text } = rig();
    const [one, other] = [term(), term()];
    await write(one, "a", {});
    assert.deepEqual(
      [kube.writes[0]?.body, kube.touched],
      [{ metadata: { name: "one", resourceVersion: NO_VERSION }, data: { text: "a" } }, []],
    );
    await assert.rejects(write(other, "b", {}), { status: 409 });
    assert.deepEqual([text(), state.refused], ["a", 1]);
  });

  it("follow somebody else's write, after the Lease is confirmed again", async () => {
    const { kube, state, term, write, text } = rig();
    const fence = term();
    await write(fence, "a");
    kube.put(OBJECT.path, { data: { text: "somebody" } });
    await write(fence, "b");
    assert.deepEqual([text(), state.confirmed, kube.touched], ["b", 2, []]);
    kube.remove(OBJECT.path);
    await write(fence, "c");
    assert.deepEqual([text(), state.refused], ["c", 0], "a deleted object is no refusal");
  });

  it("are refused if the watch does not show somebody else's write yet", async () => {
    const { kube, log, state, term, seen, write, text } = rig();
    const fence = term();
    await write(fence, "a");
    const known = seen();
    kube.put(OBJECT.path, { data: { text: "somebody" } });
    await assert.rejects(write(fence, "b", { as: known }), { status: 409 });
    assert.deepEqual([text(), state.refused], ["somebody", 1]);
    assert.deepEqual(log.lines.at(-1)?.fields, { code: "write-refused", kind: "ConfigMap", name: "one" });
    await write(fence, "b");
    assert.equal(text(), "b");
  });

  it("confirm the Lease again after a write with an unknown outcome", async () => {
    const { kube, state, term, write } = rig();
    const fence = term();
    await write(fence, "a");
    kube.onWrite = ({ path }) => {
      throw refusal(path, 500);
    };
    await assert.rejects(write(fence, "b"), { status: 500 });
    kube.onWrite = () => {};
    await write(fence, "b");
    // The Lease is confirmed again after the first write too, because that write created the object.
    assert.deepEqual([state.confirmed, state.refused, kube.touched], [3, 0, []]);
  });

  it("end with the term, before anything is sent", async () => {
    const { kube, state, term, write, seen } = rig();
    kube.put(OBJECT.path, { data: { text: "before" } });
    const fence = term();
    state.over = true;
    await assert.rejects(write(fence, "a"), { code: "term-over" });
    await assert.rejects(fence.remove(OBJECT, seen() ?? {}), { code: "term-over" });
    assert.deepEqual([kube.writes, kube.touched, state.refused], [[], [], 2]);
  });

  it("delete only the exact object that was seen, and a missing object is no error", async () => {
    const { kube, term, seen, write } = rig();
    const fence = term();
    await write(fence, "a");
    const known = seen() ?? {};
    kube.put(OBJECT.path, { data: { text: "somebody" } });
    await assert.rejects(fence.remove(OBJECT, known), { status: 409 });
    await fence.remove(OBJECT, seen() ?? {});
    assert.equal(seen(), undefined);
    await write(fence, "b");
    kube.onWrite = ({ path }) => kube.remove(path);
    await fence.remove(OBJECT, seen() ?? {});
  });
});

describe("a term that was suspended", () => {
  type Suspended = ReturnType<typeof rig>;
  const deeds: Readonly<Record<string, (next: Fence, rig: Suspended) => Promise<unknown>>> = {
    "has touched the object": (next, { seen }) => next.take(OBJECT, seen()),
    "has written the object": (next, { write }) => write(next, "a"),
    "has applied what was there": (next, { seen }) =>
      next.write(OBJECT, seen(), async () => ({ metadata: seen() ?? {} })),
  };
  for (const [deed, act] of Object.entries(deeds)) {
    it(`has every write refused once the next term ${deed}, even a write that was about to be sent`, async () => {
      const one = rig();
      const { kube, state, term, write, text } = one;
      kube.put(OBJECT.path, { data: { text: "before" } });
      const [old, next] = [term(), term()];
      await write(old, "a");
      const gate = Promise.withResolvers<void>();
      kube.onWrite = ({ body }) => (JSON.stringify(body).includes("stale") ? gate.promise : undefined);
      const suspended = write(old, "stale");
      await new Promise(setImmediate);
      await act(next, one);
      state.over = true;
      gate.resolve();
      await assert.rejects(suspended, { code: "term-over" });
      assert.deepEqual([text(), state.refused], ["a", 1]);
    });
  }
});
