import assert from "node:assert/strict";
import { test } from "node:test";
import { sumsOf, weigh } from "./weight.ts";

test("a room above its limit fails, and one with more than 5 % to spare is named", () => {
  const paths = ["lib/a.ts", "proxy/a.ts", "tools/a.ts", "extras/x/bench/a.ts", "lib/fakes/a.ts", "lib/a.test.ts"];
  const sums = sumsOf(new Map(paths.map((path) => [path, "// Why.\na;\n".repeat(50)])));
  const of = (room: string, limit: string) =>
    weigh(room, sums.get(room) ?? 0, `| room |\n| ${room} | ${limit} | 1 | 2 |`).verdict;
  assert.deepEqual([of("lib", "99"), of("lib", "100"), of("lib", "105")], ["OVER THE LIMIT", "", ""]);
  assert.deepEqual([of("tools", "199"), of("tools", "1,000")], ["OVER THE LIMIT", "more than 5 % to spare"]);
  assert.deepEqual([of("harness", "99"), of("product", "199"), of("files", "5")], Array(3).fill("OVER THE LIMIT"));
  assert.deepEqual([of("comments", "51"), of("comments", "50")], ["OVER THE LIMIT", ""]);
  assert.equal(weigh("lib", 1_000, "| lib | 2,000 | 1 | 2 |").row, "| lib | 1,030 | 1 | 2 |");
});
