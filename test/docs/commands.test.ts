import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Command } from "commander";
import { createProgram } from "#cli/program.ts";
import { captured, runHere } from "#test/fakes/cli.ts";

// The program accepts every `switchback ...` command that a page asks the reader to type: its command, options and
// arguments.

const ROOT = join(import.meta.dirname, "..", "..");
const PAGES = ["README.md", ...globSync("docs/**/*.md", { cwd: ROOT })];

/** Parser errors about missing arguments. A text may name a command without its arguments. */
const LEFT_OUT = ["missingArgument", "optionMissingArgument", "missingMandatoryOptionValue"].map(
  (code) => `commander.${code}`,
);

/** The commands in indented blocks and in code of running text. Options in brackets are included. */
function commandsOf(page: string): string[] {
  const text = readFileSync(join(ROOT, page), "utf8")
    .replaceAll(/\\\n\s*/g, "")
    .replaceAll(/\[(-[^\]]*)\]/g, "$1");
  const lines = text.split("\n").filter((line) => /^ {4}\S/.test(line));
  const inText = [...text.matchAll(/`((?:kubectl )?switchback [a-z][^`\n]*)`/g)].map(([, command = ""]) => command);
  const typed = lines.map((line) => line.replace(/ +#.*/, ""));
  const all = [...typed, ...inText].flatMap((line) => line.split(/ \| | && |; /));
  return all.flatMap((command) => {
    const [, rest] = /(?:^|\s)switchback ((?:[a-z]|--?[a-z]).*)$/.exec(command.trim()) ?? [];
    return rest === undefined || /^\s*(?:kubectl(?! switchback)|helm|docker|npm install)\b/.test(command.trim())
      ? []
      : [rest];
  });
}

/** The arguments that a shell passes to the program, without redirections to a file. */
function wordsOf(command: string): string[] {
  const words = command.replace(/\s*>.*$/, "").match(/'[^']*'|"[^"]*"|\S+/g) ?? [];
  return words.map((word) => word.replaceAll(/^['"]|['"]$/g, ""));
}

function withoutActions(command: Command): Command {
  command.exitOverride().configureOutput({ writeErr() {}, writeOut() {} });
  command.action(() => {});
  for (const child of command.commands) withoutActions(child);
  return command;
}

/** What the program says about the arguments; undefined if it accepts them. */
async function complaint(words: string[]): Promise<string | undefined> {
  const output = { write() {} };
  const context = { stdout: output, stderr: output } as unknown as Parameters<typeof createProgram>[0];
  const program = withoutActions(await createProgram(context, () => {}));
  try {
    await program.parseAsync(words, { from: "user" });
    return undefined;
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    const printed = code === "commander.helpDisplayed" || code === "commander.version";
    return printed || LEFT_OUT.includes(code ?? "") ? undefined : message;
  }
}

const HIDDEN = ["probe", "complete", "install-check"];

test("each command has examples in its help, and the program accepts them", async () => {
  const { commands } = await createProgram(captured().context, () => {});
  for (const name of commands.map((command) => command.name()).filter((each) => !HIDDEN.includes(each))) {
    const { stdout } = await runHere([name, "--help"], {});
    const [, examples = ""] = stdout.split("\nExamples:\n");
    const lines = [...examples.matchAll(/^ {2}switchback (.*)$/gm)].map(([, line = ""]) => line);
    assert.ok(lines.length > 0, name);
    for (const line of lines) {
      assert.ok(line.startsWith(name), line);
      assert.equal(await complaint(wordsOf(line.replace(/ \| .*/, ""))), undefined, line);
    }
  }
});

test("the program accepts each command that a page names", async () => {
  const refused: string[] = [];
  let count = 0;
  for (const page of PAGES) {
    for (const command of commandsOf(page)) {
      count += 1;
      const said = await complaint(wordsOf(command));
      if (said !== undefined) refused.push(`${page}: switchback ${command}: ${said}`);
    }
  }
  assert.deepEqual(refused, []);
  assert.ok(count > 60, String(count));
});
