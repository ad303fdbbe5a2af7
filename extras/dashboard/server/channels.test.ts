import assert from "node:assert/strict";
import { test } from "node:test";
import { componentsChannel, trafficChannel } from "./channels.ts";

const NEVER = new AbortController().signal;
const known = <T>(value: T) => ({ known: true, value }) as const;
const FAILED = { known: false, reason: { code: "not-read", text: "no route" } } as const;

test("if components cannot be read, each part is unknown, until a read is successful again", async () => {
  const parts = { deployments: known([]), agents: known([]), upstreams: known([]), publishers: known([]) };
  let fails = true;
  const channel = componentsChannel(async () => {
    if (fails) throw new Error("no route");
    return parts;
  });
  assert.deepEqual(channel.whole(), []);
  assert.deepEqual(await channel.read(NEVER), [
    { type: "components", components: { deployments: FAILED, agents: FAILED, upstreams: FAILED, publishers: FAILED } },
  ]);
  fails = false;
  assert.deepEqual(await channel.read(NEVER), [{ type: "components", components: parts }]);
  assert.deepEqual(channel.whole(), [{ type: "components", components: parts }]);
});

test("traffic: each read sends its point; later clients get ten minutes; a failure costs one point", async () => {
  let at = 0;
  let fails = false;
  const pods = [{ pod: "a", series: [] }];
  const channel = trafficChannel(
    async () => {
      if (fails) throw new Error("no route");
      return known(pods);
    },
    5_000,
    () => ++at,
  );
  const times = (messages: Awaited<ReturnType<typeof channel.read>>) =>
    messages.flatMap((message) => (message.type === "traffic" ? message.points.map((point) => point.at) : []));
  assert.deepEqual(channel.whole(), []);
  assert.deepEqual(times(await channel.read(NEVER)), []);
  assert.deepEqual(times(await channel.read(NEVER)), [2]);
  fails = true;
  assert.deepEqual(await channel.read(NEVER), [{ type: "traffic", points: [], measured: FAILED }]);
  fails = false;
  assert.deepEqual(times(await channel.read(NEVER)), [3]);
  for (let count = 0; count < 200; count++) await channel.read(NEVER);
  const kept = times(channel.whole());
  assert.deepEqual([kept.length, kept[0], kept.at(-1)], [120, 84, 203]);
});
