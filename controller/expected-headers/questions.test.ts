import assert from "node:assert/strict";
import { test } from "node:test";
import { type AttributedAnswer, type HeaderQuestion, questionKey } from "#lib/documents/header-questions.ts";
import type { FoundTarget } from "../targets/service-view.ts";
import { type QuestionInput, questionsOf } from "./questions.ts";

const AT = "2026-11-26T05:00:00.000Z";
const LATER = "2026-11-26T05:14:00.000Z";
const MUCH_LATER = "2026-11-26T05:16:00.000Z";

function found(namespace: string, name = "edge"): FoundTarget {
  return {
    name: `${namespace}-${name}`,
    upstream: { service: { namespace, name } },
    upstreamIPs: ["198.51.100.9"],
    classes: [],
    clusterIPs: [],
    ports: [80, 443].map((port) => ({ port, protocol: "v1", stated: "nobody" })),
  };
}

function input(more: Partial<QuestionInput>): QuestionInput {
  return {
    targets: [found("infra")],
    wantedOf: () => new Set(),
    exampleOf: () => "shop.example.com",
    proxies: ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
    clusterDomain: "cluster.local",
    published: [],
    reported: new Map(),
    ...more,
  };
}

test("each asked port is a question, with a name for the ClientHello", () => {
  const questions = questionsOf(input({ exampleOf: () => "*.example.com", proxies: ["10.0.0.1"] }));
  const common = {
    target: "infra-edge",
    upstream: "edge.infra.svc.cluster.local.",
    upstreamIPs: ["198.51.100.9"],
    name: "switchback-asks.example.com",
    namespace: "infra",
    asker: "10.0.0.1",
  };
  assert.deepEqual(questions, [
    { ...common, port: 80, upstreamPort: 80, speaks: "http" },
    { ...common, port: 443, upstreamPort: 443, speaks: "tls" },
  ]);
});

test("the order of the questions does not depend on the order of the targets", () => {
  const targets = ["b", "c", "a"].map((namespace) => found(namespace));
  assert.deepEqual(
    questionsOf(input({ targets })).map(({ target, port }) => `${target} ${port}`),
    ["a-edge 80", "a-edge 443", "b-edge 80", "b-edge 443", "c-edge 80", "c-edge 443"],
  );
});

test("a question keeps its name while the target has it, and then takes another one", () => {
  const names = new Set(["a.example.com", "b.example.com"]);
  const exampleOf = (_: string, last?: string) => (last !== undefined && names.has(last) ? last : [...names][0]);
  const namesOf = (published: readonly HeaderQuestion[]) => {
    return questionsOf(input({ exampleOf, published })).map(({ name }) => name);
  };
  const published = questionsOf(input({ exampleOf: () => "b.example.com" }));
  assert.deepEqual(namesOf(published), ["b.example.com", "b.example.com"]);
  names.delete("b.example.com");
  assert.deepEqual(namesOf(published), ["a.example.com", "a.example.com"]);
  names.clear();
  assert.deepEqual(namesOf(published), ["b.example.com", "b.example.com"], "until the target is not asked any more");
});

test("one proxy asks for a whole namespace; if a proxy goes, only its namespaces move", () => {
  const targets = Array.from({ length: 60 }, (_, index) => [found(`n${index}`), found(`n${index}`, "other")]).flat();
  const askers = (proxies: readonly string[]) => {
    const byNamespace = Map.groupBy(questionsOf(input({ targets, proxies })), ({ namespace }) => namespace);
    return new Map(
      [...byNamespace].map(([namespace, all]) => [namespace, [...new Set(all.map(({ asker }) => asker))]]),
    );
  };
  const before = askers(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
  const after = askers(["10.0.0.3", "10.0.0.1"]);
  assert.ok([...before.values()].every(({ length }) => length === 1));
  assert.equal(new Set([...before.values()].flat()).size, 3);
  for (const [namespace, [asker]] of before) {
    if (asker !== "10.0.0.2") assert.deepEqual(after.get(namespace), [asker]);
  }
});

test("without a ready proxy, a question keeps its asker and its answer, and a new question waits", () => {
  const published = questionsOf(input({})).map((each) => ({
    ...each,
    known: { answer: "optional", at: AT, by: "10.0.0.1" } as const,
  }));
  assert.deepEqual(questionsOf(input({ published, proxies: [] })), published);
  assert.deepEqual(questionsOf(input({ proxies: [] })), []);
  assert.deepEqual(questionsOf(input({ exampleOf: () => undefined })), []);
});

test("an answer is published if it is new or different, and otherwise rarely", () => {
  const [first] = questionsOf(input({}));
  assert.ok(first);
  const by = "10.0.0.1";
  const known = { answer: "optional", at: AT, by } as const;
  const answered = (answer: "optional" | "refuses-header", at: string, before?: typeof known) => {
    const published = before ? [{ ...first, known: before }] : [];
    const reported = new Map([[questionKey(first), { answer, at, by }]]);
    return questionsOf(input({ published, reported }))[0]?.known;
  };
  assert.deepEqual(answered("optional", AT), known);
  assert.deepEqual(answered("optional", LATER, known), known);
  assert.deepEqual(answered("optional", MUCH_LATER, known), { answer: "optional", at: MUCH_LATER, by });
  assert.deepEqual(answered("refuses-header", LATER, known), { answer: "refuses-header", at: LATER, by });
});

/** The answer that is published after these reports. */
function publishedAfter(...reports: readonly AttributedAnswer[]) {
  const [first] = questionsOf(input({}));
  assert.ok(first);
  let question = first;
  for (const report of reports) {
    const reported = new Map([[questionKey(question), report]]);
    question = questionsOf(input({ published: [question], reported }))[0] ?? assert.fail();
  }
  return question.known;
}

test("a different answer of another proxy is published beside the last one, until the port is asked again", () => {
  const one = { answer: "demands-v1", at: AT, by: "10.0.0.1" } as const;
  const two = { answer: "refuses-header", at: LATER, by: "10.0.0.2" } as const;
  const adopted = { ...one, by: two.by };
  assert.deepEqual(publishedAfter(one, adopted), one, "a new asker repeats what it has not seen itself");
  assert.deepEqual(publishedAfter(one, adopted, two), { ...two, other: one });
  assert.deepEqual(publishedAfter(one, two, { ...two, at: "2026-11-26T05:20:00.000Z" }), { ...two, other: one });
  const again = { ...two, at: "2026-11-26T05:40:00.000Z" };
  assert.deepEqual(publishedAfter(one, two, again), again);
  const back = { ...one, at: "2026-11-26T05:15:00.000Z" };
  assert.deepEqual(publishedAfter(one, two, back), { ...back, other: two }, "only the last one");
});

test("a different answer counts as a change if its proxy is the same, or the last one was unclear or old", () => {
  const two = { answer: "refuses-header", at: LATER, by: "10.0.0.2" } as const;
  for (const one of [
    { answer: "demands-v1", at: AT, by: two.by },
    { answer: "unknown", at: AT, by: "10.0.0.1" },
    { answer: "demands-v1", at: "2026-11-26T04:38:59.000Z", by: "10.0.0.1" },
  ] as const) {
    assert.deepEqual(publishedAfter(one, two), two, JSON.stringify(one));
  }
});
