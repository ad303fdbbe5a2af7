import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { askerRig, question } from "#test/fakes/asker-rig.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

describe("a round", () => {
  it("is made at once for a new question, and its answer is reported", async () => {
    const rig = askerRig();
    rig.setQuestions([question()]);
    await rig.clock.pass(0);
    assert.deepEqual(rig.asker.answers(), [{ target: "edge", port: 443, answer: "demands-either", count: 1 }]);
  });

  it("is not made for a withdrawn question", async () => {
    const rig = askerRig();
    rig.setQuestions([question()]);
    await rig.clock.pass(0);
    rig.setQuestions([]);
    assert.deepEqual(rig.asker.answers(), []);
    await rig.clock.pass(60 * MINUTE);
    assert.equal(rig.rounds.length + rig.rechecks.length, 1);
    assert.equal(rig.clock.pending, 0, "an idle asker has a timer");
  });

  it("is not made at first if the answer is published: a recheck is enough", async () => {
    const rig = askerRig({ random: () => 0.5 });
    rig.setQuestions([question({ answer: "demands-v2" })]);
    assert.deepEqual(rig.asker.answers(), []);
    await rig.clock.pass(13 * SECOND);
    assert.deepEqual([rig.rounds.length, rig.rechecks[0]?.header, rig.answer()], [0, "v2", "demands-v2"]);
  });

  it("of several proxies for a new port are spread over a second", async () => {
    const rig = askerRig({ random: () => 0.99 });
    rig.proxies = 20;
    rig.setQuestions([question()]);
    await rig.clock.pass(SECOND);
    assert.ok((rig.roundTimes()[0] ?? 0) > 900);
  });

  it("is made every 30 min by all proxies together: a recheck does not see a header that is accepted now", async () => {
    const rig = askerRig();
    rig.mode = "refuses";
    rig.proxies = 2;
    rig.setQuestions([question({ answer: "refuses-header" })]);
    await rig.clock.pass(59 * MINUTE);
    assert.equal(rig.rounds.length, 0);
    rig.mode = "optional";
    await rig.clock.pass(2 * MINUTE);
    assert.equal(rig.answer(), "optional");
  });

  it("does not depend on what was seen at another upstream", async () => {
    const rig = askerRig();
    rig.setQuestions([question()]);
    await rig.clock.pass(0);
    rig.setQuestions([question({ name: "other.example.com", namespace: "new" })]);
    await rig.clock.pass(5 * SECOND);
    assert.deepEqual([rig.rounds.length, rig.answer()], [1, "demands-either"]);
    for (const change of [{ upstreamPort: 8443 }, { upstreamIPs: ["198.51.100.10"] }, { speaks: "http" }] as const) {
      const before = rig.rounds.length;
      rig.setQuestions([question(change)]);
      assert.equal(rig.answer(), "none");
      await rig.clock.pass(2 * SECOND);
      assert.deepEqual([rig.rounds.length, rig.answer()], [before + 1, "demands-either"]);
    }
  });

  it("that was running when the upstream changed does not count", async () => {
    const rig = askerRig();
    rig.durations.set("edge", 3 * SECOND);
    rig.setQuestions([question()]);
    await rig.clock.pass(1 * SECOND);
    rig.setQuestions([question({ upstreamIPs: ["198.51.100.10"] })]);
    await rig.clock.pass(2 * SECOND);
    assert.deepEqual(
      [rig.answer(), rig.rounds.map(({ address }) => address)],
      ["none", ["198.51.100.9", "198.51.100.10"]],
    );
    await rig.clock.pass(3 * SECOND);
    assert.equal(rig.answer(), "demands-either");
  });

  it("ends when the asker stops, and no other round follows", async () => {
    let aborted = false;
    const never = new Promise<never>(() => {});
    const rig = askerRig({
      ask: (_question, { signal }) => {
        signal.addEventListener("abort", () => {
          aborted = true;
        });
        return never;
      },
    });
    rig.setQuestions([question()]);
    await rig.clock.pass(0);
    rig.asker.stop();
    assert.equal(aborted, true);
    rig.setQuestions([question({ target: "new" })]);
    await rig.clock.pass(MINUTE);
    assert.equal(rig.clock.pending, 0);
  });
});

describe("a round without an answer", () => {
  it("is retried with backoff from 3 s to 1 min, and reports unknown if no answer is known", async () => {
    const rig = askerRig({ random: () => 0.99999 });
    rig.mode = "down";
    rig.setQuestions([question()]);
    await rig.clock.pass(0);
    assert.equal(rig.answer(), "unknown");
    assert.match(JSON.stringify(rig.log.lines), /none: refused, v1: refused, v2: refused/);
    await rig.clock.pass(10 * MINUTE);
    const [, ...gaps] = rig.roundTimes().map((at, index, all) => Math.round((at - (all[index - 1] ?? 0)) / SECOND));
    assert.deepEqual(gaps.slice(0, 8), [3, 3, 4, 8, 16, 32, 60, 60]);
    rig.mode = "optional";
    await rig.clock.pass(MINUTE);
    assert.equal(rig.answer(), "optional");
    const two = askerRig({ random: () => 0.99999 });
    two.proxies = 2;
    two.mode = "down";
    two.setQuestions([question()]);
    await two.clock.pass(20 * MINUTE);
    const times = two.roundTimes();
    assert.equal(Math.round(((times.at(-1) ?? 0) - (times.at(-2) ?? 0)) / SECOND), 120, "each of two proxies");
  });

  it("never changes what was seen last, whatever the outcomes are", async () => {
    for (const mode of ["down", "silent", "garbage"] as const) {
      const rig = askerRig();
      rig.setQuestions([question()]);
      await rig.clock.pass(0);
      rig.mode = mode;
      await rig.clock.pass(120 * MINUTE);
      assert.ok(rig.rounds.length > 20, mode);
      assert.deepEqual(rig.asker.answers(), [{ target: "edge", port: 443, answer: "demands-either", count: 1 }]);
    }
  });

  it("is retried at the next address", async () => {
    const rig = askerRig();
    rig.mode = "down";
    rig.setQuestions([question({ upstreamIPs: ["198.51.100.9", "fd00::9"] })]);
    await rig.clock.pass(6 * SECOND);
    assert.deepEqual(
      rig.rounds.slice(0, 3).map(({ address }) => address),
      ["198.51.100.9", "fd00::9", "198.51.100.9"],
    );
  });
});

describe("an answer that contradicts the published one", () => {
  const published = { answer: "demands-either" } as const;

  it("is seen by a recheck, and repeated every 12 s", async () => {
    const rig = askerRig();
    rig.setQuestions([question(published)]);
    rig.mode = "refuses";
    await rig.clock.pass(25 * SECOND);
    const [first = 0] = rig.roundTimes();
    assert.equal(rig.rechecks.length, 1);
    await rig.clock.pass(36 * SECOND);
    assert.deepEqual(
      rig.roundTimes().slice(0, 4),
      [0, 12, 24, 36].map((after) => first + after * SECOND),
    );
  });

  it("is repeated ever more rarely while the published one stays, and not at all once it has changed", async () => {
    const rig = askerRig();
    rig.mode = "refuses";
    rig.setQuestions([question(published)]);
    await rig.clock.pass(60 * MINUTE);
    const times = rig.roundTimes();
    assert.ok(times.length < 30, `${times.length} rounds`);
    assert.equal((times.at(-1) ?? 0) - (times.at(-2) ?? 0), 5 * MINUTE);
    rig.setQuestions([question({ answer: "refuses-header" })]);
    const before = rig.rounds.length;
    await rig.clock.pass(20 * MINUTE);
    assert.equal(rig.rounds.length, before);
  });

  it("can also be what this proxy saw before another proxy's answer was published", async () => {
    const rig = askerRig();
    rig.setQuestions([question(published)]);
    await rig.clock.pass(SECOND);
    rig.setQuestions([question({ answer: "refuses-header" })]);
    await rig.clock.pass(12 * SECOND);
    assert.deepEqual([rig.rounds.length, rig.answer()], [1, "demands-either"]);
  });
});

describe("the address", () => {
  it("is looked up if the question has none", async () => {
    const rig = askerRig();
    const { upstreamIPs: _ips, ...named } = question();
    rig.setQuestions([named, { ...named, target: "literal", upstream: "192.0.2.7" }]);
    await rig.clock.pass(3 * SECOND);
    assert.deepEqual(rig.rounds.map(({ address }) => address).sort(), ["192.0.2.1", "192.0.2.7"]);
  });

  it("is never one of this proxy", async () => {
    const rig = askerRig({ isSelf: (address, port) => address === "198.51.100.9" && port === 443 });
    rig.setQuestions([question()]);
    await rig.clock.pass(10 * SECOND);
    assert.equal(rig.rounds.length, 0);
    assert.match(JSON.stringify(rig.log.lines), /no address/);
    rig.setQuestions([question({ upstreamIPs: ["198.51.100.9", "198.51.100.10"] })]);
    await rig.clock.pass(3 * SECOND);
    assert.deepEqual(
      rig.rounds.map(({ address }) => address),
      ["198.51.100.10"],
    );
  });

  it("that is not found in time means a round without an answer", async () => {
    const rig = askerRig({ lookup: () => new Promise(() => {}) });
    const { upstreamIPs: _ips, ...named } = question();
    rig.setQuestions([named]);
    await rig.clock.pass(5 * SECOND);
    assert.deepEqual([rig.answer(), rig.rounds.length], ["unknown", 0]);
  });
});
