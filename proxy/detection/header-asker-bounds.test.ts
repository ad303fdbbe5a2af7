import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HeaderQuestion } from "#lib/documents/targets-format.ts";
import { askerRig, question } from "#test/fakes/asker-rig.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

function questions(count: number, namespace: string, change: Partial<HeaderQuestion> = {}): HeaderQuestion[] {
  return Array.from({ length: count }, (_, index) =>
    question({ target: `${namespace}-${index}`, namespace, ...change }),
  );
}

/** The largest number of times within any `windowMs`. */
function densest(times: readonly number[], windowMs: number): number {
  const sorted = [...times].sort((one, other) => one - other);
  return Math.max(0, ...sorted.map((from) => sorted.filter((at) => at >= from && at < from + windowMs).length));
}

describe("rounds", () => {
  it("start once a second per proxy: 500 targets after a restart cause no burst", async () => {
    const rig = askerRig();
    rig.setQuestions(Array.from({ length: 500 }, (_, index) => questions(2, `ns-${index}`)).flat());
    await rig.clock.pass(1000 * SECOND);
    assert.equal(new Set(rig.rounds.map(({ target }) => target)).size, 1000);
    assert.equal(densest(rig.roundTimes().slice(0, 200), 2 * SECOND), 2);
    assert.ok(rig.rounds.length <= 1001);
  });

  it("do not run after a restart if all answers are published", async () => {
    const rig = askerRig({ random: Math.random });
    rig.setQuestions(questions(500, "infra", { answer: "demands-either" }));
    await rig.clock.pass(SECOND);
    assert.equal(rig.rounds.length, 0);
  });

  it("start 20 times a minute per namespace; a namespace with 1,000 questions does not delay others", async () => {
    const rig = askerRig();
    rig.setQuestions([...questions(1000, "large"), ...questions(3, "small")]);
    await rig.clock.pass(10 * SECOND);
    assert.equal(rig.rounds.filter(({ namespace }) => namespace === "small").length, 3);
    // Another namespace appears while the large one is being asked.
    rig.setQuestions([...questions(1000, "large"), ...questions(3, "small"), ...questions(1, "late")]);
    await rig.clock.pass(2 * SECOND);
    assert.equal(rig.rounds.filter(({ namespace }) => namespace === "late").length, 1);
    await rig.clock.pass(10 * MINUTE);
    const large = rig.rounds.filter(({ namespace }) => namespace === "large").map(({ at }) => at);
    assert.equal(densest(large, MINUTE), 20);
  });

  it("of a namespace stay within its limit, even if it always has new targets", async () => {
    const rig = askerRig();
    for (let second = 0; second < 120; second += 1) {
      rig.setQuestions([question({ target: `t-${second}` })]);
      await rig.clock.pass(SECOND);
    }
    assert.equal(densest(rig.roundTimes(), MINUTE), 20);
  });

  it("of ports that never answer are few at once, and delay no other namespace", async () => {
    const rig = askerRig();
    const silent = ["a", "b", "c", "d", "e"].flatMap((namespace) => questions(20, namespace));
    for (const { target } of silent) rig.durations.set(target, 13 * SECOND);
    rig.setQuestions(silent);
    await rig.clock.pass(90 * SECOND);
    assert.ok(rig.most <= 14, `${rig.most}`);
    rig.setQuestions([...silent, ...questions(1, "late")]);
    await rig.clock.pass(2 * SECOND);
    assert.equal(rig.rounds.filter(({ namespace }) => namespace === "late").length, 1);
  });

  it("of failing ports are not delayed by namespaces that always have new targets, nor are rechecks", async () => {
    const rig = askerRig();
    rig.modes.set("down-0", "down");
    const calm = questions(1, "calm", { answer: "demands-either" });
    rig.setQuestions([...questions(1, "down"), ...calm]);
    await rig.clock.pass(2 * SECOND);
    for (let turn = 0; turn < 90; turn += 1) {
      const others = ["a", "b", "c", "d"].flatMap((namespace) =>
        questions(10, namespace).map((each) => ({ ...each, target: `${each.target}-${turn}` })),
      );
      rig.setQuestions([...questions(1, "down"), ...calm, ...others]);
      await rig.clock.pass(SECOND);
    }
    const retries = rig.rounds.filter(({ namespace, at }) => namespace === "down" && at > 3 * SECOND);
    assert.ok(retries.length > 3, `${retries.length} retries`);
    const rechecks = rig.rechecks.filter(({ namespace }) => namespace === "calm");
    assert.ok(rechecks.length >= 3, `${rechecks.length} rechecks`);
  });

  it("take less than 50 ms of CPU time on average, even with 2,000 questions", async () => {
    const rig = askerRig();
    const all = Array.from({ length: 1000 }, (_, index) => questions(2, `ns-${index}`)).flat();
    const started = process.cpuUsage();
    rig.setQuestions(all);
    const { user, system } = process.cpuUsage(started);
    assert.ok((user + system) / 1000 < 50, `${(user + system) / 1000} ms`);
    await rig.clock.pass(0);
    const before = process.cpuUsage();
    await rig.clock.pass(100 * SECOND);
    const after = process.cpuUsage(before);
    assert.equal(rig.rounds.length, 101);
    assert.ok((after.user + after.system) / 1000 / 100 < 50, `${(after.user + after.system) / 1e5} ms a round`);
  });
});

describe("a recheck", () => {
  it("is one connection with the header that works; all proxies together make one each 25 s", async () => {
    for (const [mode, header] of [
      ["demands", "v1"],
      ["demands v2", "v2"],
      ["optional", "v1"],
      ["refuses", "none"],
    ] as const) {
      const rig = askerRig();
      rig.mode = mode;
      rig.proxies = 2;
      rig.setQuestions([question()]);
      await rig.clock.pass(24 * MINUTE);
      assert.equal(rig.rounds.length, 1);
      assert.deepEqual([...new Set(rig.rechecks.map((each) => each.header))], [header]);
      const turns = Math.floor((24 * MINUTE) / (2 * 25 * SECOND));
      assert.ok([turns, turns + 1].includes(rig.rechecks.length), `${rig.rechecks.length}`);
    }
  });

  it("of a namespace waits for no more than the 20 contacts a minute, and a round comes first", async () => {
    const rig = askerRig();
    for (let turn = 0; turn < 100; turn += 1) {
      // Each new document contains the same questions.
      rig.setQuestions(questions(100, "infra", { answer: "demands-either" }));
      await rig.clock.pass(3 * SECOND);
    }
    assert.equal(rig.rechecks.length, 100);
    assert.equal(new Set(rig.rechecks.map(({ target }) => target)).size, 100);
    rig.setQuestions([...questions(100, "infra", { answer: "demands-either" }), question({ target: "new" })]);
    await rig.clock.pass(3 * SECOND);
    assert.deepEqual([rig.rounds.length, rig.rechecks.length], [1, 100]);
  });

  it("does not wait for a namespace with many ports", async () => {
    const rig = askerRig();
    const published = { answer: "demands-either" } as const;
    rig.setQuestions([...questions(1000, "large", published), ...questions(1, "small", published)]);
    await rig.clock.pass(2 * MINUTE);
    const small = rig.rechecks.filter(({ namespace }) => namespace === "small").length;
    assert.ok(small >= 4, `${small} rechecks`);
  });

  it("is not made for a port without a known answer, or while rounds fail", async () => {
    const rig = askerRig();
    rig.modes.set("garbage", "garbage");
    rig.setQuestions([question(), question({ target: "garbage" })]);
    await rig.clock.pass(5 * SECOND);
    rig.modes.set("edge", "down");
    await rig.clock.pass(20 * MINUTE);
    assert.deepEqual(
      rig.rechecks.map(({ target }) => target),
      ["edge"],
    );
  });
});
