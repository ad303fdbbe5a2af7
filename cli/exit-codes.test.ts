import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { captured, runHere } from "#test/fakes/cli.ts";
import { createProgram } from "./program.ts";

const PAGE = readFileSync(new URL("../docs/commands.md", import.meta.url), "utf8");
/** Commands that never report a finding: for them, 1 only means a failure. */
const WITHOUT_FINDING = new Set([
  ..."controller webhook proxy all config demo probe completion complete help".split(" "),
  ..."agent dns publish dashboard".split(" "),
]);

/** The first cells of the rows of the table with this head. */
function firstCells(head: string): string[] {
  const table = PAGE.slice(PAGE.indexOf(head)).split("\n\n", 1)[0] ?? "";
  return table
    .split("\n")
    .slice(2)
    .map((row) => row.split("|")[1]?.trim().replaceAll("`", "") ?? "");
}

const program = await createProgram(captured().context, () => {});
const commands = program.commands.map((command) => command.name());

describe("the exit codes in docs/commands.md", () => {
  it("are three", () => assert.deepEqual(firstCells("| code | meaning"), ["0", "1", "2"]));

  it("are documented for each command that has findings, and for no other", () => {
    const said = new Set(firstCells("| command | 1 means").map((cell) => cell.split(" ", 1)[0] ?? ""));
    const others = commands.filter((name) => !WITHOUT_FINDING.has(name));
    assert.deepEqual([...said].sort(), others.sort());
  });

  for (const name of commands) {
    it(`${name} follows them: 0 for help, 2 for an unknown option`, async () => {
      const help = await runHere([name, "--help"], {});
      assert.deepEqual([help.code, help.stderr], [0, ""]);
      const bad = await runHere([name, "--no-such-option"], {});
      assert.deepEqual([bad.code, bad.stdout], [2, ""]);
      assert.match(bad.stderr, /^switchback: unknown option '--no-such-option'/);
    });
  }
});
