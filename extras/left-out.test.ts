import assert from "node:assert/strict";
import { test } from "node:test";
import { LeftOut } from "./left-out.ts";

test("left-out names are counted, and the first few reasons are listed", () => {
  const leftOut = new LeftOut();
  assert.equal(leftOut.reason, undefined);
  for (let at = 0; at < 5; at += 1) leftOut.add({ code: at === 0 ? "search-domain" : "other", text: `t${at}` });
  assert.equal(leftOut.count, 5);
  assert.deepEqual(leftOut.reason, { code: "search-domain", text: "5 names are left out: t0; t1; t2" });
});
