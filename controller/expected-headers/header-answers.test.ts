import assert from "node:assert/strict";
import { test } from "node:test";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { HeaderAnswers } from "./header-answers.ts";

const SECOND = 1_000;

/** The answers of port 443 of target `a`, as proxies report them. */
function rig(published?: HeaderAnswer) {
  const answers = new HeaderAnswers();
  const learn = (answer: HeaderAnswer | undefined) => {
    const asked = { port: 443, speaks: "tls", name: "a.example.com", upstreamPort: 443 } as const;
    const ask = [{ ...asked, ...(answer && { answer }) }];
    answers.learn([{ name: "a", upstream: "a", ports: [], clusterIPs: [], ask }]);
  };
  learn(published);
  let count = 0;
  return {
    answers,
    learn,
    /** A proxy has asked the port again. Returns whether that has changed the answer. */
    saw(second: number, answer: HeaderAnswer, proxy = "one"): boolean {
      count += 1;
      return answers.take(new Map([[proxy, [{ target: "a", port: 443, answer, count }]]]), second * SECOND);
    },
    get decided() {
      return answers.answerOf("a", 443);
    },
  };
}

const REFUSES = "refuses-header";
const ANSWERS: Readonly<Record<string, HeaderAnswer>> = { R: REFUSES, O: "optional", D: "demands-v1", U: "unknown" };
/** What proxies see of a port whose known answer is `optional`: `SECOND ANSWER PROXY`. Only the last one may count. */
const SERIES: ReadonlyArray<readonly [what: string, counts: boolean, series: string]> = [
  ["four equal answers over 30 s", true, "0 R a, 9 R a, 20 R a, 30 R a"],
  ["four of any proxies", true, "0 R a, 9 R b, 20 R a, 30 R c"],
  ["four in less than 30 s", false, "0 R a, 9 R a, 20 R a, 29.9 R a"],
  ["three over an hour", false, "0 R a, 1800 R a, 3600 R a"],
  ["the known answer of another proxy in between", false, "0 R a, 9 R a, 20 R a, 25 O b, 30 R a"],
  ["a third answer in between", false, "0 R a, 9 R a, 20 R a, 25 D b, 30 R a"],
  ["no answer in between", true, "0 R a, 9 R a, 20 R a, 25 U b, 30 R a"],
];
for (const [what, counts, series] of SERIES) {
  test(`a known answer ${counts ? "changes" : "does not change"} after: ${what}`, () => {
    const port = rig("optional");
    const seen = series.split(", ").map((each) => each.split(" "));
    const changed = seen.map(([second, letter = "", proxy]) =>
      port.saw(Number(second), ANSWERS[letter] ?? "unknown", proxy),
    );
    assert.deepEqual(
      changed,
      seen.map((_, index) => counts && index === seen.length - 1),
    );
    assert.deepEqual([port.decided, port.answers.isWaiting], counts ? [REFUSES, false] : ["optional", true]);
  });
}

test("an answer stays when all proxies are gone; what they reported goes", () => {
  const { answers, decided } = rig("optional");
  const page = (answer: HeaderAnswer) => [{ target: "a", port: 443, answer, count: 1 }];
  const seen = () => [...answers.seenAt("a", 443)];
  answers.take(
    new Map([
      ["one", page("optional")],
      ["two", page(REFUSES)],
    ]),
    0,
  );
  assert.deepEqual(seen(), [
    ["optional", ["one"]],
    [REFUSES, ["two"]],
  ]);
  answers.take(new Map([["one", undefined]]), 0);
  assert.deepEqual(seen(), [["optional", ["one"]]], "a proxy that does not send its page is still there");
  answers.take(new Map(), 0);
  assert.deepEqual([decided, seen()], ["optional", []]);
});
