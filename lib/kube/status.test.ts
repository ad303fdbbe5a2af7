import assert from "node:assert/strict";
import { test } from "node:test";
import { KubeStatusError, retryAfterOf, statusError } from "./status.ts";

const shown = ({ code, status, message, retryAfterMs }: KubeStatusError) => [code, status, message, retryAfterMs];
const body = (more: object) => JSON.stringify({ kind: "Status", ...more });

for (const [what, error, expected] of [
  [
    "a Status with a reason and a message",
    statusError("GET /pods", 403, body({ reason: "Forbidden", message: "no" })),
    ["kube-status", 403, "GET /pods: 403 Forbidden: no", undefined],
  ],
  [
    "an expired version",
    statusError("GET /pods", 410, body({ reason: "Expired", message: "" })),
    ["kube-expired", 410, "GET /pods: 410 Expired", undefined],
  ],
  [
    "text",
    statusError("GET /pods", 502, " Bad Gateway\n"),
    ["kube-status", 502, "GET /pods: 502: Bad Gateway", undefined],
  ],
  [
    "JSON of another kind",
    statusError("GET /", 400, '{"message":"x"}'),
    ["kube-status", 400, 'GET /: 400: {"message":"x"}', undefined],
  ],
  ["no body", statusError("GET /", 503, ""), ["kube-status", 503, "GET /: 503", undefined]],
  ["a Retry-After", statusError("GET /", 429, "", "3"), ["kube-status", 429, "GET /: 429", 3_000]],
  [
    "a Retry-After that is a date",
    statusError("GET /", 429, "", "Wed, 21 Oct 2026 07:28:00 GMT"),
    ["kube-status", 429, "GET /: 429", undefined],
  ],
  [
    "a delay in the Status",
    statusError("GET /", 429, body({ message: "slow", details: { retryAfterSeconds: 2 } })),
    ["kube-status", 429, "GET /: 429: slow", 2_000],
  ],
  [
    "a watch's Status",
    new KubeStatusError("watch", 410, { reason: "Expired", message: "too old" }),
    ["kube-expired", 410, "watch: 410 Expired: too old", undefined],
  ],
] as const) {
  test(`the error of ${what}`, () => {
    assert.deepEqual(shown(error), expected);
    assert.equal(retryAfterOf(error), expected[3]);
  });
}

test("a long message is truncated after a thousand characters", () => {
  for (const [length, ending] of [
    [1_000, ""],
    [1_001, "..."],
  ] as const) {
    const { message } = statusError("GET /", 400, "x".repeat(length));
    assert.equal(message, `GET /: 400: ${"x".repeat(1_000)}${ending}`);
  }
});
