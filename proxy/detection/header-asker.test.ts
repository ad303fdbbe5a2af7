import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { askerRig, question } from "#test/fakes/asker-rig.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

describe("a round", () => {
  it("is made at once for a new question, and its answer is reported", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(0);
    assert.deepEqual(rig.asker.answers(), [
      {
        target: "edge",
        port: 443,
        answer: "demands-either",
        at: rig.isoAt(0),
      },
    ]);
    assert.deepEqual([...rig.asker.rounds()], [["demands-either", 1]]);
  });

  it("is not made for another proxy's question, or for a withdrawn question", async () => {
    const rig = askerRig({ ownAddresses: ["::ffff:10.0.0.7"] });
    rig.asker.setQuestions([question(), question({ target: "other", asker: "10.0.0.8" })]);
    await rig.clock.pass(0);
    assert.deepEqual(
      rig.rounds.map(({ target }) => target),
      ["edge"],
    );
    rig.asker.setQuestions([]);
    assert.deepEqual(rig.asker.answers(), []);
    await rig.clock.pass(60 * MINUTE);
    assert.equal(rig.rounds.length + rig.rechecks.length, 1);
    assert.equal(rig.clock.pending, 0, "an idle asker has a timer");
  });

  it("is made again after 25 to 35 minutes", async () => {
    for (const [random, minutes] of [
      [0, 25],
      [0.99999, 35],
    ] as const) {
      const rig = askerRig({ random: () => random });
      rig.asker.setQuestions([question()]);
      await rig.clock.pass((minutes - 1) * MINUTE);
      assert.equal(rig.rounds.length, 1);
      await rig.clock.pass(1 * MINUTE);
      assert.equal(rig.rounds.length, 2);
    }
  });

  it("is made at once when the upstream changes, and its answer counts; other changes cause no round", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(0);
    rig.mode = "refuses";
    const known = { answer: "optional", at: rig.isoAt(0), by: "10.0.0.7" } as const;
    rig.asker.setQuestions([question({ name: "other.example.com", namespace: "new", known })]);
    await rig.clock.pass(5 * SECOND);
    assert.deepEqual([rig.rounds.length, rig.answer()], [1, "demands-either"]);
    rig.asker.setQuestions([question({ upstreamPort: 8443 })]);
    await rig.clock.pass(0);
    assert.deepEqual([rig.rounds.length, rig.answer()], [2, "refuses-header"]);
    rig.asker.setQuestions([question({ upstreamPort: 8443, upstreamIPs: ["198.51.100.10"] })]);
    await rig.clock.pass(2 * SECOND);
    assert.equal(rig.rounds.length, 3);
    rig.asker.setQuestions([question({ upstreamPort: 8443, upstreamIPs: ["198.51.100.10"], speaks: "http" })]);
    await rig.clock.pass(2 * SECOND);
    assert.equal(rig.rounds.length, 4);
  });

  it("that was running when the upstream changed does not count", async () => {
    const rig = askerRig();
    rig.durations.set("edge", 3 * SECOND);
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(1 * SECOND);
    rig.asker.setQuestions([question({ upstreamIPs: ["198.51.100.10"] })]);
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
      ask: (_question, _address, signal) => {
        signal.addEventListener("abort", () => {
          aborted = true;
        });
        return never;
      },
    });
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(0);
    rig.asker.stop();
    assert.equal(aborted, true);
    rig.asker.setQuestions([question({ target: "new" })]);
    await rig.clock.pass(MINUTE);
    assert.equal(rig.clock.pending, 0);
  });
});

describe("an answer from before a restart", () => {
  it("that is younger than half an hour is adopted without a round", async () => {
    const rig = askerRig();
    const known = { answer: "demands-v2", at: rig.isoAt(-20 * MINUTE), by: "10.0.0.7" } as const;
    rig.asker.setQuestions([question({ known })]);
    assert.deepEqual(rig.asker.answers(), [{ target: "edge", port: 443, answer: "demands-v2", at: known.at }]);
    await rig.clock.pass(5 * MINUTE - 1);
    assert.equal(rig.rounds.length, 0);
    await rig.clock.pass(1);
    assert.equal(rig.rounds.length, 1);
  });

  it("that is older still counts when the port is asked again, which happens at once", async () => {
    const rig = askerRig();
    rig.mode = "refuses";
    rig.asker.setQuestions([question({ known: { answer: "optional", at: rig.isoAt(-40 * MINUTE), by: "10.0.0.7" } })]);
    await rig.clock.pass(0);
    assert.deepEqual([rig.rounds.length, rig.answer()], [1, "optional"]);
  });

  it("whose time is in the future does not count for longer", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question({ known: { answer: "optional", at: rig.isoAt(600 * MINUTE), by: "10.0.0.7" } })]);
    await rig.clock.pass(25 * MINUTE);
    assert.equal(rig.rounds.length, 1);
  });

  it("that was unknown is asked for again within a minute, and the first answer counts", async () => {
    const rig = askerRig({ random: () => 0.5 });
    rig.asker.setQuestions([question({ known: { answer: "unknown", at: rig.isoAt(-MINUTE), by: "10.0.0.7" } })]);
    assert.equal(rig.answer(), "unknown");
    await rig.clock.pass(MINUTE);
    assert.equal(rig.answer(), "demands-either");
  });
});

describe("a round without an answer", () => {
  it("is retried with backoff from 1 s to 1 min, and reports unknown if no answer is known", async () => {
    const rig = askerRig({ random: () => 0.99999 });
    rig.mode = "down";
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(0);
    assert.equal(rig.answer(), "unknown");
    assert.match(JSON.stringify(rig.log.lines), /none: refused, v1: refused, v2: refused/);
    await rig.clock.pass(10 * MINUTE);
    const [, ...gaps] = rig.roundTimes().map((at, index, all) => Math.round((at - (all[index - 1] ?? 0)) / SECOND));
    assert.deepEqual(gaps.slice(0, 8), [1, 2, 4, 8, 16, 32, 60, 60]);
    rig.mode = "optional";
    await rig.clock.pass(MINUTE);
    assert.equal(rig.answer(), "optional");
  });

  it("never removes a known answer, whatever the outcomes are", async () => {
    for (const mode of ["down", "silent", "garbage"] as const) {
      const rig = askerRig();
      rig.asker.setQuestions([question()]);
      await rig.clock.pass(0);
      rig.mode = mode;
      await rig.clock.pass(120 * MINUTE);
      assert.equal(rig.answer(), "demands-either", mode);
      assert.ok(rig.rounds.length > 20, mode);
      assert.equal(rig.asker.answers()[0]?.at, rig.isoAt(0));
    }
  });

  it("is retried every 5 min in the end if the port is reachable but its answer stays unclear", async () => {
    const rig = askerRig({ random: () => 0.99999 });
    rig.mode = "garbage";
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(60 * MINUTE);
    const times = rig.roundTimes();
    assert.equal(Math.round((times.at(-1)! - times.at(-2)!) / SECOND), 300);
    assert.ok(times.length < 32, `${times.length} rounds`);
  });

  it("is retried at the next address", async () => {
    const rig = askerRig();
    rig.mode = "down";
    rig.asker.setQuestions([question({ upstreamIPs: ["198.51.100.9", "fd00::9"] })]);
    await rig.clock.pass(2 * SECOND);
    assert.deepEqual(
      rig.rounds.slice(0, 3).map(({ address }) => address),
      ["198.51.100.9", "fd00::9", "198.51.100.9"],
    );
  });

  it("is also a round that throws", async () => {
    const rig = askerRig({ ask: () => Promise.reject(new Error("broken")) });
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(0);
    assert.deepEqual([rig.answer(), rig.log.lines.length], ["unknown", 2]);
  });
});

describe("a known answer changes", () => {
  it("after three equal rounds over 20 s", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(0);
    rig.mode = "refuses";
    // A recheck detects the change.
    const start = 25 * SECOND;
    await rig.clock.pass(start + 20 * SECOND - 1);
    assert.equal(rig.answer(), "demands-either");
    await rig.clock.pass(1);
    assert.equal(rig.answer(), "refuses-header");
    assert.deepEqual(
      rig.roundTimes().map((at) => at - start),
      [-start, 0, 10 * SECOND, 20 * SECOND],
    );
    assert.equal(rig.asker.answers()[0]?.at, rig.isoAt(start + 20 * SECOND));
  });

  it("and the other ports of its target are asked at once", async () => {
    const rig = askerRig();
    const ports = [question(), question({ port: 80, speaks: "http", upstreamPort: 80 })];
    rig.asker.setQuestions([...ports, question({ target: "other" })]);
    await rig.clock.pass(5 * SECOND);
    const before = rig.rounds.length;
    rig.modes.set("edge", "refuses");
    while (rig.rounds.length === before) await rig.clock.pass(SECOND);
    await rig.clock.pass(22 * SECOND);
    assert.deepEqual(
      rig.asker.answers().map(({ target, port, answer }) => `${target} ${port} ${answer}`),
      ["edge 443 refuses-header", "edge 80 refuses-header", "other 443 demands-either"],
    );
    assert.equal(rig.rounds.length - before, 2 * 3);
  });

  it("not if a different answer interrupts the equal rounds", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question({ known: { answer: "optional", at: rig.isoAt(-40 * MINUTE), by: "10.0.0.7" } })]);
    for (const mode of ["refuses", "refuses", "demands", "refuses", "refuses"] as const) {
      rig.mode = mode;
      await rig.clock.pass(rig.rounds.length === 0 ? 0 : 10 * SECOND);
    }
    assert.deepEqual([rig.rounds.length, rig.answer()], [5, "optional"]);
    rig.mode = "optional";
    await rig.clock.pass(10 * SECOND);
    assert.equal(rig.answer(), "optional");
    await rig.clock.pass(10 * MINUTE);
    assert.equal(rig.rounds.length, 6);
  });

  it("not after two rounds, however far apart they are", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question({ known: { answer: "optional", at: rig.isoAt(-40 * MINUTE), by: "10.0.0.7" } })]);
    rig.mode = "refuses";
    await rig.clock.pass(0);
    rig.mode = "down";
    await rig.clock.pass(60 * SECOND);
    rig.mode = "refuses";
    const before = rig.rounds.length;
    while (rig.rounds.length === before) await rig.clock.pass(SECOND);
    assert.equal(rig.answer(), "optional");
    await rig.clock.pass(10 * SECOND);
    assert.equal(rig.answer(), "refuses-header");
  });

  it("not in less than 20 s, however many rounds there are", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question({ known: { answer: "optional", at: rig.isoAt(-40 * MINUTE), by: "10.0.0.7" } })]);
    rig.mode = "refuses";
    await rig.clock.pass(SECOND);
    rig.asker.dialled({ listener: "edge:443", connected: false, failures: [] });
    await rig.clock.pass(15 * SECOND);
    assert.deepEqual([rig.rounds.length, rig.answer()], [3, "optional"]);
    await rig.clock.pass(10 * SECOND);
    assert.deepEqual([rig.rounds.length, rig.answer()], [4, "refuses-header"]);
  });

  it("not while rounds keep differing, which then come every minute", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question({ known: { answer: "optional", at: rig.isoAt(-40 * MINUTE), by: "10.0.0.7" } })]);
    for (let seconds = 0; seconds < 600; seconds += 1) {
      rig.mode = rig.rounds.length % 2 === 0 ? "refuses" : "demands";
      await rig.clock.pass(seconds === 0 ? 0 : SECOND);
    }
    assert.ok(rig.rounds.length < 17, `${rig.rounds.length} rounds in 10 min`);
    assert.equal(rig.answer(), "optional");
  });

  it("even if the upstream does not answer for a while between the rounds", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question({ known: { answer: "optional", at: rig.isoAt(-40 * MINUTE), by: "10.0.0.7" } })]);
    for (const mode of ["refuses", "down", "refuses"] as const) {
      rig.mode = mode;
      await rig.clock.pass(10 * SECOND);
    }
    await rig.clock.pass(30 * SECOND);
    assert.equal(rig.answer(), "refuses-header");
  });
});

describe("failing dials of relayed connections", () => {
  const report = (connected: boolean, cause = "connection-refused" as const) => ({
    listener: "edge:443",
    connected,
    failures: connected ? [] : [{ address: "198.51.100.9", cause, detail: "" }],
  });

  it("cause a round when they begin and when they end, at most once a minute", async () => {
    const rig = askerRig();
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(5 * SECOND);
    rig.asker.dialled(report(true));
    rig.asker.dialled(report(false));
    rig.asker.dialled(report(false));
    await rig.clock.pass(0);
    assert.equal(rig.rounds.length, 2);
    rig.asker.dialled(report(true));
    rig.asker.dialled(report(false));
    await rig.clock.pass(59 * SECOND);
    assert.equal(rig.rounds.length, 2);
    await rig.clock.pass(1 * SECOND);
    rig.asker.dialled(report(true));
    await rig.clock.pass(0);
    assert.equal(rig.rounds.length, 3);
  });

  it("of a listener without a question are ignored", async () => {
    const rig = askerRig();
    rig.asker.dialled(report(false));
    await rig.clock.pass(MINUTE);
    assert.equal(rig.rounds.length, 0);
  });
});

describe("the address", () => {
  it("is looked up if the question has none", async () => {
    const rig = askerRig();
    const { upstreamIPs: _ips, ...named } = question();
    rig.asker.setQuestions([named, { ...named, target: "literal", upstream: "192.0.2.7" }]);
    await rig.clock.pass(0);
    assert.deepEqual(rig.rounds.map(({ address }) => address).sort(), ["192.0.2.1", "192.0.2.7"]);
  });

  it("is never one of this proxy", async () => {
    const rig = askerRig({ isSelf: (address, port) => address === "198.51.100.9" && port === 443 });
    rig.asker.setQuestions([question()]);
    await rig.clock.pass(10 * SECOND);
    assert.equal(rig.rounds.length, 0);
    assert.match(JSON.stringify(rig.log.lines), /none: unreachable, v1: unreachable, v2: unreachable/);
    rig.asker.setQuestions([question({ upstreamIPs: ["198.51.100.9", "198.51.100.10"] })]);
    await rig.clock.pass(0);
    assert.deepEqual(
      rig.rounds.map(({ address }) => address),
      ["198.51.100.10"],
    );
  });

  it("that is not found in time means a round without an answer; equal names share a lookup", async () => {
    let lookups = 0;
    const rig = askerRig({
      lookup: () => {
        lookups += 1;
        return new Promise(() => {});
      },
    });
    const { upstreamIPs: _ips, ...named } = question();
    rig.asker.setQuestions([named, { ...named, port: 80 }]);
    await rig.clock.pass(5 * SECOND);
    assert.deepEqual([lookups, rig.answer(), rig.rounds.length], [1, "unknown", 0]);
  });
});
