import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { after, before, describe, it } from "node:test";
import { captured, filesFolder, runHere } from "#test/fakes/cli.ts";
import { createProgram } from "./program.ts";

let files: Awaited<ReturnType<typeof filesFolder>>;
before(async () => {
  files = await filesFolder();
});
after(() => files.remove());

/** Where the real shell is. zsh and fish are not everywhere: their scripts are then checked as text only. */
const hasShell = (shell: string) => spawnSync(shell, ["-c", "exit 0"]).status === 0;

async function script(shell: string): Promise<string> {
  const { code, stdout, stderr } = await runHere(["completion", shell], {});
  assert.deepEqual([code, stderr], [0, ""]);
  return files.file(`switchback.${shell}`, stdout);
}

/** What a shell offers after each of these command lines, sorted. */
type Offers = (lines: readonly string[]) => Promise<string[][]>;

const sorted = (text: string) =>
  text
    .split(/\s+/)
    .filter((word) => word !== "")
    .sort();

const bash: Offers = async (lines) => {
  const path = await script("bash");
  return lines.map((line) => {
    const words = line.split(" ").map((word) => `"${word}"`);
    const code =
      `set -u; source ${path}; COMP_WORDS=(${words.join(" ")}); COMP_CWORD=${words.length - 1}; _switchback; [ ` +
      `\${#COMPREPLY[@]} = 0 ] || printf '%s\\n' "\${COMPREPLY[@]}"`;
    return sorted(
      execFileSync("bash", ["--norc", "-c", code], { encoding: "utf8", cwd: path.replace(/\/[^/]*$/, "") }),
    );
  });
};

const fish: Offers = async (lines) => {
  const path = await script("fish");
  return lines.map((line) => {
    const code = `source ${path}; complete -C '${line}'`;
    const env = { PATH: process.env.PATH, HOME: path.replace(/\/[^/]*$/, "") };
    const text = execFileSync("fish", ["--no-config", "-c", code], { encoding: "utf8", env, cwd: env.HOME });
    return sorted(text.replace(/\t.*$/gm, ""));
  });
};

/**
 * The completion system runs only in an interactive shell: one on a terminal of zsh's own (zsh/zpty), which prints
 * what is offered.
 */
const zsh: Offers = async (lines) => {
  const path = await script("zsh");
  const folder = path.replace(/\/[^/]*$/, "");
  const typed = lines.map((line) => `ask ${JSON.stringify(line)}`).join("\n");
  // A file, so that its lines are not echoed.
  const setup = await files.file(
    "setup.zsh",
    `PROMPT="" RPROMPT=""
cd ${folder}
autoload -Uz compinit && compinit -D -u
source ${path}
compadd() { builtin compadd -O found "$@"; print -l -- "offer:"\${^found}; }
shown() { _main_complete; print "offers end"; compstate[insert]=""; compstate[list]=""; }
zle -C offer complete-word shown
bindkey "^T" offer
print "set up"
`,
  );
  const code = `
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source ${setup}'
zpty -r shell REPLY '*set up*'
ask() {
  zpty -n -w shell "$1"$'\\x14'
  zpty -r shell REPLY '*offers end*'
  print -r -- "$REPLY" | tr -d '\\r' | sed -n 's/.*offer://p' | sort -u | tr '\\n' ' '
  print
  zpty -n -w shell $'\\x15'
}
${typed}
zpty -d shell
`;
  const text = execFileSync("zsh", ["-f", "-c", code], {
    encoding: "utf8",
    timeout: 60_000,
    env: { PATH: process.env.PATH, HOME: folder, TERM: "dumb" },
  });
  return text.trimEnd().split("\n").map(sorted);
};

const COMMANDS = createProgram(captured().context, () => {})
  .commands.map((command) => command.name())
  .filter((name) => name !== "probe")
  .concat("help")
  .sort()
  .join(" ");
const FORMATS = "json name text wide yaml";

for (const [shell, offers] of Object.entries({ bash, zsh, fish })) {
  const here = hasShell(shell);
  assert.ok(here || shell !== "bash", "bash is everywhere");

  describe(`${shell}${here ? "" : " (not on this machine: the script is only read)"}`, () => {
    it("has a script that names every command, and the values of options", async () => {
      const { stdout } = await runHere(["completion", shell], {});
      const long = shell === "fish" ? "-l output" : "--output";
      for (const text of [...COMMANDS.split(" "), long, FORMATS.split(" ").at(-1) ?? ""]) {
        assert.ok(stdout.includes(text), text);
      }
    });

    if (!here) return;

    it("offers what fits", async () => {
      await files.file("hosts.yaml", "");
      const found = await offers([
        "switchback ",
        "switchback sta",
        "switchback status -o ",
        "switchback status --output w",
        "switchback status --stu",
        "switchback --v",
        "switchback completion ",
        "switchback status --kubeconfig hosts.y",
      ]);
      assert.deepEqual(
        found.map((words) => words.join(" ")),
        [COMMANDS, "status", FORMATS, "wide", "--stuck", "--version", "bash fish zsh", "hosts.yaml"],
      );
    });
  });
}
