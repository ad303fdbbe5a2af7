import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { V2_SIGNATURE } from "./proxy-header.ts";
import { parseHeader } from "./proxy-header-parse.ts";
import { SignatureMatcher } from "./signature-matcher.ts";

const V1 = Buffer.from("PROXY");
const V2 = Buffer.from(V2_SIGNATURE);

/** The bytes that would be passed on, and the answer to the last piece. */
function pass(pieces: readonly Uint8Array[]) {
  const matcher = new SignatureMatcher();
  const passed: Uint8Array[] = [];
  let answer: ReturnType<SignatureMatcher["take"]> = "unknown";
  for (const piece of pieces.filter(({ length }) => length > 0)) {
    answer = answer === "unknown" ? matcher.take(piece) : answer;
    if (answer === "yes") break;
    passed.push(piece);
  }
  return { answer, passed: Buffer.concat(passed) };
}

test("property: a stream in any pieces is refused iff it begins with a signature, which never passes whole", () => {
  const beginnings = fc.constantFrom(V1, V2).chain((signature) =>
    fc.tuple(fc.nat(signature.length), fc.uint8Array({ maxLength: 20 })).map(([length, rest]) => {
      return Buffer.concat([signature.subarray(0, length), rest]);
    }),
  );
  fc.assert(
    fc.property(beginnings, fc.array(fc.nat(32)), (stream, cuts) => {
      const at = [0, ...cuts.map((cut) => Math.min(cut, stream.length)).sort((a, b) => a - b), stream.length];
      const { answer, passed } = pass(at.slice(1).map((end, index) => stream.subarray(at[index], end)));
      const begins = [V1, V2].some((signature) => stream.subarray(0, signature.length).equals(signature));
      assert.equal(answer === "yes", begins);
      if (!begins) assert.ok(passed.equals(stream), "everything is passed on");
      else assert.notEqual(parseHeader(passed).status, "complete");
      if (begins) assert.ok([V1, V2].some((signature) => passed.length < signature.length));
    }),
    { numRuns: 2000 },
  );
});
