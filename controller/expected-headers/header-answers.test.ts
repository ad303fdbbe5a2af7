import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { HeaderAnswers } from "./header-answers.ts";

const SECOND = 1_000;

/** The answers of port 443 of target `a`, as two proxies report them. */
function rig(published?: HeaderAnswer) {
  const answers = new HeaderAnswers();
  const learn = (answer: HeaderAnswer | undefined, leads = true) => {
    const ask = [
      { port: 443, speaks: "tls", name: "a.example.com", upstreamPort: 443, ...(answer && { answer }) } as const,
    ];
    answers.learn([{ name: "a", upstream: "a", ports: [], clusterIPs: [], ask }], leads);
  };
  learn(published);
  let count = 0;
  return {
    answers,
    learn,
    /** A proxy has asked the port again. Returns whether that has changed the answer. */
    saw(second: number, answer: HeaderAnswer, proxy = "one"): boolean {
      count += 1;
      return answers.take(proxy, [{ target: "a", port: 443, answer, count }], second * SECOND);
    },
    get decided() {
      return answers.answerOf("a", 443);
    },
  };
}

describe("the first answer", () => {
  it("counts at once, but `unknown` is no answer", () => {
    const port = rig();
    assert.deepEqual([port.saw(0, "unknown"), port.decided, port.answers.isWaiting], [false, undefined, true]);
    assert.deepEqual([...port.answers.seenAt("a", 443).keys()], ["unknown"]);
    assert.deepEqual([port.saw(1, "optional"), port.decided, port.answers.isWaiting], [true, "optional", false]);
  });

  it("of a new leader is the published one", () => {
    const port = rig("demands-v2");
    assert.equal(port.decided, "demands-v2");
    assert.equal(port.saw(0, "refuses-header"), false);
    assert.equal(port.decided, "demands-v2");
  });

  it("for a port that is not published does not count", () => {
    const { answers } = rig();
    const report = { target: "b", port: 443, answer: "optional", count: 1 } as const;
    assert.equal(answers.take("one", [report, { ...report, target: "a", port: 80 }], 0), false);
    assert.deepEqual([answers.answerOf("b", 443), answers.answerOf("a", 80)], [undefined, undefined]);
  });
});

describe("a known answer changes", () => {
  it("after four equal answers over 30 s, from any proxies", () => {
    const port = rig("optional");
    for (const [second, proxy] of [
      [0, "one"],
      [12, "two"],
      [24, "one"],
      [29.9, "two"],
    ] as const)
      assert.equal(port.saw(second, "refuses-header", proxy), false);
    assert.equal(port.answers.isWaiting, true);
    assert.deepEqual([port.saw(30, "refuses-header"), port.decided], [true, "refuses-header"]);
  });

  it("not after three, however long that takes", () => {
    const port = rig("optional");
    for (const second of [0, 1_000, 2_000]) assert.equal(port.saw(second, "refuses-header"), false);
  });

  it("not if another answer comes in between", () => {
    for (const other of ["optional", "demands-v1"] as const) {
      const port = rig("optional");
      for (const second of [0, 12, 24]) port.saw(second, "refuses-header");
      port.saw(30, other, "two");
      assert.equal(port.saw(36, "refuses-header"), false, other);
      assert.equal(port.decided, "optional");
    }
  });

  it("although a proxy gets no answer in between", () => {
    const port = rig("optional");
    for (const second of [0, 12, 24]) port.saw(second, "refuses-header");
    port.saw(30, "unknown", "two");
    assert.equal(port.saw(36, "refuses-header"), true);
  });

  it("only by new answers: a page that is read again does not count", () => {
    const { answers, decided } = rig("optional");
    const page = [{ target: "a", port: 443, answer: "refuses-header", count: 7 } as const];
    for (const second of [0, 12, 24, 36, 48]) answers.take("one", page, second * SECOND);
    assert.equal(decided, "optional");
  });

  it("in 30 s twice within an hour, then in a minute, then in two", () => {
    const port = rig("optional");
    let second = 0;
    const took: number[] = [];
    for (const answer of ["refuses-header", "optional", "refuses-header", "optional"] as const) {
      const from = second;
      while (!port.saw(second, answer)) second += 10;
      took.push(second - from);
    }
    assert.deepEqual(took, [30, 30, 60, 120]);
    second += 3_600;
    const from = second;
    while (!port.saw(second, "refuses-header")) second += 10;
    assert.equal(second - from, 30);
  });
});

describe("the published answer", () => {
  it("does not undo a decision of the leader that is not published yet; other replicas use it", () => {
    const port = rig();
    port.saw(0, "optional");
    port.learn(undefined);
    assert.equal(port.decided, "optional");
    port.learn("demands-v1", false);
    assert.equal(port.decided, "demands-v1");
  });

  it("stays when all proxies are gone; what they reported goes", () => {
    const port = rig();
    port.saw(0, "optional", "one");
    port.saw(1, "refuses-header", "two");
    port.saw(1, "unknown", "three");
    assert.deepEqual(
      [...port.answers.seenAt("a", 443)],
      [
        ["optional", ["one"]],
        ["refuses-header", ["two"]],
        ["unknown", ["three"]],
      ],
    );
    port.answers.keep(["one"]);
    assert.deepEqual([...port.answers.seenAt("a", 443)], [["optional", ["one"]]]);
    port.answers.keep([]);
    assert.deepEqual([port.decided, port.answers.seenAt("a", 443).size], ["optional", 0]);
  });
});
