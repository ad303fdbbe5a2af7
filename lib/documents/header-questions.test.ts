import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type HeaderQuestion,
  MAX_QUESTIONS,
  parseAnswers,
  parseQuestions,
  renderAnswers,
  renderQuestions,
} from "./header-questions.ts";

const QUESTION: HeaderQuestion = {
  target: "edge",
  port: 443,
  speaks: "tls",
  upstream: "edge.infra.svc",
  upstreamIPs: ["198.51.100.9"],
  upstreamPort: 443,
  name: "shop.example.com",
  namespace: "infra",
  asker: "10.0.0.7",
  known: {
    answer: "optional",
    at: "2026-11-26T05:00:00.000Z",
    by: "10.0.0.7",
    other: { answer: "demands-v1", at: "2026-11-26T04:59:00.000Z", by: "10.0.0.6" },
  },
};

test("questions are parsed as they were written", () => {
  assert.deepEqual(parseQuestions(renderQuestions([QUESTION])), [QUESTION]);
  const { upstreamIPs: _ips, known: _known, ...bare } = QUESTION;
  assert.deepEqual(parseQuestions(renderQuestions([bare])), [bare]);
});

test("an invalid question and a second question of the same port are left out, and the others stay", () => {
  const bad = [
    { target: "../edge" },
    { port: 0 },
    { speaks: "smtp" },
    { upstreamIPs: ["edge"] },
    { upstreamPort: "443" },
    { name: "a b" },
    { asker: "proxy-1" },
    { known: { answer: "yes", at: "2026-11-26T05:00:00Z", by: "10.0.0.7" } },
    { known: { answer: "optional", at: "today", by: "10.0.0.7" } },
    { known: { answer: "optional", at: "2026-11-26T05:00:00Z", by: "proxy-1" } },
    { known: { answer: "optional", at: "2026-11-26T05:00:00Z", by: "10.0.0.7", other: {} } },
    { asker: "10.0.0.8" },
  ].map((change) => ({ ...QUESTION, ...change }));
  const text = JSON.stringify({ version: 1, questions: [QUESTION, ...bad, { ...QUESTION, port: 80 }] });
  assert.deepEqual(parseQuestions(text), [QUESTION, { ...QUESTION, port: 80 }]);
});

test("a document that cannot be parsed gives a reason, and only part of a huge one is read", () => {
  for (const text of ["{", "[]", '{"version":2,"questions":[]}', '{"version":1}', " ".repeat(900_001)]) {
    const parsed = parseQuestions(text);
    assert.ok("code" in parsed && parsed.code === "questions-malformed", text.slice(0, 30));
  }
  const many = Array.from({ length: MAX_QUESTIONS + 1 }, (_, index) => ({
    target: `t${index}`,
    port: 80,
    speaks: "http" as const,
    upstream: "h",
    upstreamPort: 80,
    name: "a.example",
    namespace: "n",
    asker: "10.0.0.7",
  }));
  const parsed = parseQuestions(renderQuestions(many));
  assert.equal("code" in parsed ? 0 : parsed.length, MAX_QUESTIONS);
});

test("answers are parsed as they were reported, and invalid ones are left out", () => {
  const reported = { target: "edge", port: 80, answer: "refuses-header", at: "2026-11-26T05:00:00Z" } as const;
  const page: unknown = JSON.parse(renderAnswers([reported]).body);
  assert.deepEqual(parseAnswers(page), [reported]);
  const bad = [
    { ...reported, answer: "no" },
    { ...reported, at: "now" },
    { ...reported, port: 0 },
  ];
  assert.deepEqual(parseAnswers({ answers: [...bad, null, reported] }), [reported]);
  for (const other of [null, "x", {}, { answers: {} }]) assert.deepEqual(parseAnswers(other), []);
});
