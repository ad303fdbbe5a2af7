import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Generator } from "./generator.ts";

const ROOT = join(import.meta.dirname, "..", "..");
/**
 * The tables beside the code of each room. The page has its parts in the order in which these files first name them.
 */
const FILES = ["controller", "webhook", "certs", "lib", "proxy", "cli", "doctor", "extras/*"].flatMap((room) =>
  globSync(`${room}/codes.md`, { cwd: ROOT }).sort(),
);
const HEAD = "| code | meaning | what to do |\n|---|---|---|\n";

interface CodePart {
  /** Text above the table; may be empty. */
  intro: string;
  readonly rows: CodeRow[];
}

interface CodeRow {
  readonly codes: readonly string[];
  /** The folder whose table has the row, such as `extras/agent`. */
  readonly room: string;
  /** The row as it is in the file. */
  readonly line: string;
}

/** The parts of docs/codes.md, from the tables of all rooms. The keys are the parts' titles. */
export function codeParts(): ReadonlyMap<string, CodePart> {
  const parts = new Map<string, CodePart>();
  for (const file of FILES) {
    const [, ...sections] = readFileSync(join(ROOT, file), "utf8").split(/^## /m);
    for (const section of sections) {
      const [top = "", table = ""] = section.split(HEAD);
      const [title = "", ...intro] = top.trim().split("\n");
      const part = parts.get(title) ?? { intro: "", rows: [] };
      parts.set(title, part);
      if (intro.length > 0) part.intro = `${intro.join("\n")}\n`;
      part.rows.push(
        ...table
          .trim()
          .split("\n")
          .map((line) => rowOf(line, dirname(file))),
      );
    }
  }
  return parts;
}

function rowOf(line: string, room: string): CodeRow {
  if (!/^\| `.+ \| .+ \| .+ \|$/.test(line)) throw new Error(`${room}/codes.md has an incomplete row: ${line}`);
  const codes = Array.from((line.split(" | ")[0] ?? "").matchAll(/`([^`]+)`/g), ([, code = ""]) => code);
  return { codes, room, line };
}

/** docs/codes.md, from the tables of all rooms. */
export const codesPage: Generator = {
  name: "codes-page",
  file: "docs/codes.md",
  render: async () =>
    `# Every reason code

Look up a code here, with its meaning and what you can do about it. docs/troubleshooting.md starts
from symptoms instead.

Each decision of Switchback has a code and a text. The text names the object and its values. The
code is for searches, scripts and alerts, and never changes its meaning. You find codes in the
status, in logs (\`code\`), in warnings of \`kubectl\`, in the doctor's findings and in errors. In
metrics they are the labels \`code\`, \`cause\` and \`reason\`. The reason of an Event is the code in
another spelling: \`rollout-failed\` is \`RolloutFailed\`.

Read the end of the text first. If the API server, a file or a connection failed, its own message
stands there.
${[...codeParts()].map(([title, part]) => partOf(title, part)).join("")}
## How this page is made
\`npm run gen\` makes it from the tables beside the code:
${FILES.map((file) => `- ${file}\n`).join("")}`,
};

function partOf(title: string, { intro, rows }: CodePart): string {
  return `\n## ${title}\n${intro}\n${HEAD}${rows.map(({ line }) => `${line}\n`).join("")}`;
}
