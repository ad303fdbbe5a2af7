import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeReview, encodeAnswer } from "./admission-review.ts";

const request = {
  uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
  kind: { group: "", version: "v1", kind: "Pod" },
  operation: "CREATE",
  namespace: "shop",
  object: { metadata: {}, spec: {} },
  dryRun: true,
  userInfo: { username: "somebody" },
};
const review = { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request };

function decode(value: unknown) {
  return decodeReview(Buffer.from(typeof value === "string" ? value : JSON.stringify(value)));
}

test("a review is decoded, and unknown fields are ignored", () => {
  const { uid, kind, operation, namespace, object } = decode(review);
  assert.deepEqual(
    { uid, kind: kind.kind, operation, namespace, object },
    { uid: request.uid, kind: "Pod", operation: "CREATE", namespace: "shop", object: request.object },
  );
});

const SECRET = "s3cr3t-value";
/** Bodies that are no review: what the flaw says, and the uid of the answer. */
const BAD: ReadonlyArray<readonly [title: string, body: unknown, says: RegExp, uid?: string]> = [
  ["nothing", "", /not JSON/],
  ["text that is not JSON", `{"apiVersion": ${SECRET}`, /not JSON/],
  ["half a review", JSON.stringify(review).slice(0, 200), /incomplete/],
  ["bytes that are not UTF-8 text", Buffer.from([0xff, 0xfe, 0x00]).toString("latin1"), /not JSON/],
  ["a number", "1", /the body/],
  ["null", "null", /the body/],
  ["a list", [review], /the body/],
  ["another version", { ...review, apiVersion: "admission.k8s.io/v1beta1" }, /apiVersion.*io\/v1/, request.uid],
  ["another kind", { ...review, kind: SECRET }, /kind.*AdmissionReview/, request.uid],
  ["no request", { ...review, request: undefined }, /request/],
  ["no operation", { ...review, request: { ...request, operation: undefined } }, /request\.operation/, request.uid],
  ["no uid", { ...review, request: { ...request, uid: undefined } }, /request\.uid/],
  ["an overlong uid", { ...review, request: { ...request, uid: "x".repeat(1_000) } }, /request\.uid/],
  ["a uid that is not a string", { ...review, request: { ...request, uid: { toString: SECRET } } }, /request\.uid/],
];

for (const [title, body, says, uid = ""] of BAD) {
  test(`${title} is no review: the flaw is named without quoting content, and a uid is kept`, () => {
    const { flaw = "", ...rest } = decode(body);
    assert.match(flaw, says);
    assert.ok(!flaw.includes(SECRET));
    assert.deepEqual(rest, { uid, kind: { group: "", kind: "" }, operation: "" });
  });
}

test("the answer is valid JSON for any uid and warnings", () => {
  const uid = 'a"b\\c\u2028\né\u{1f600}';
  const warnings = ['"quoted"', "two"];
  assert.deepEqual(JSON.parse(encodeAnswer(uid, { warnings, patch: [] })), {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    response: { uid, allowed: true, patchType: "JSONPatch", patch: "W10=", warnings },
  });
  for (const other of ['"-a', 'a-"', "a\n", "\u00e9", "0b6e3a55-6e34-4a53-a9c3-f3a0d4f3c0a1"])
    assert.equal(JSON.parse(encodeAnswer(other)).response.uid, other);
});
