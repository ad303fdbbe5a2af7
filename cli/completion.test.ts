import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmod } from "node:fs/promises";
import { delimiter, dirname } from "node:path";
import { after, before, describe, it } from "node:test";
import { captured, MAIN, runHere, useFiles } from "#test/fakes/cli.ts";
import { type FakeApi, fakeApi } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { createProgram } from "./program.ts";

const files = useFiles();
/** Environment of the shells: where they find the program, and its kubeconfig. */
const env = { PATH: "", KUBECONFIG: "" };
const CONTEXTS = ["arn:aws:eks:eu", "dev", "prod", "$(touch x)"];
before(async () => {
  const program = await files.file("switchback", `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`);
  await chmod(program, 0o755);
  env.PATH = [dirname(program), process.env.PATH].join(delimiter);
  const contexts = CONTEXTS.map((name) => ({ name, context: { cluster: "c", user: "u" } }));
  env.KUBECONFIG = await files.file("kubeconfig", JSON.stringify({ contexts }));
});

/** Whether this machine has the shell. zsh and fish may be missing: the tests then check their scripts as text only. */
const hasShell = (shell: string) => spawnSync(shell, ["-c", "exit 0"]).status === 0;

async function script(shell: string): Promise<string> {
  const { code, stdout, stderr } = await runHere(["completion", shell], {});
  assert.deepEqual([code, stderr], [0, ""]);
  return files.file(`switchback.${shell}`, stdout);
}

/** The sorted words that a shell offers after each of these command lines. */
type Offers = (lines: readonly string[]) => Promise<string[][]>;

const sorted = (text: string) =>
  text
    .split(/\s+/)
    .filter((word) => word !== "")
    .sort();

const bash: Offers = async (lines) => {
  const path = await script("bash");
  return lines.map((line) => {
    // Bash also splits words at = and :, which are words themselves.
    const words = line.split(" ").flatMap((word) => (word === "" ? [""] : word.split(/([=:])/).filter(Boolean)));
    const quoted = words.map((word) => `"${word}"`).join(" ");
    const code =
      `set -u; source ${path}; COMP_WORDS=(${quoted}); COMP_CWORD=${words.length - 1}; COMP_LINE="${line}"; ` +
      `COMP_POINT=${line.length}; _switchback; [ \${#COMPREPLY[@]} = 0 ] || printf '%s\\n' "\${COMPREPLY[@]}"`;
    return sorted(execFileSync("bash", ["--norc", "-c", code], { encoding: "utf8", cwd: dirname(path), env }));
  });
};

const fish: Offers = async (lines) => {
  const path = await script("fish");
  return lines.map((line) => {
    const code = `source ${path}; complete -C '${line}'`;
    const home = dirname(path);
    const options = { encoding: "utf8", env: { ...env, HOME: home }, cwd: home } as const;
    const text = execFileSync("fish", ["--no-config", "-c", code], options);
    return sorted(text.replace(/\t.*$/gm, ""));
  });
};

/**
 * The completion system runs only in an interactive shell, so this one runs on a terminal that zsh emulates
 * (zsh/zpty). It prints what it offers.
 */
const zsh: Offers = async (lines) => {
  const path = await script("zsh");
  const folder = path.replace(/\/[^/]*$/, "");
  const typed = lines.map((line) => `ask ${JSON.stringify(line)}`).join("\n");
  // Read from a file, so that the shell does not echo its lines.
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
    env: { ...env, HOME: folder, TERM: "dumb" },
  });
  return text.trimEnd().split("\n").map(sorted);
};

const COMMANDS = createProgram(captured().context, () => {})
  .commands.map((command) => command.name())
  .filter((name) => !["complete", "install-check"].includes(name))
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

    it("offers the words that match", async () => {
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
        "switchback inject hosts.y",
        "switchback doctor --context ",
        "switchback doctor --context p",
      ]);
      assert.deepEqual(
        found.map((words) => words.join(" ")),
        [
          COMMANDS,
          "status",
          FORMATS,
          "wide",
          "--stuck",
          "--version",
          "bash fish zsh",
          "hosts.yaml",
          "hosts.yaml",
          "arn:aws:eks:eu dev prod",
          "prod",
        ],
      );
    });
  });
}

it("bash gets only the part after the last colon, and completes values after an equals sign", async () => {
  const lines = ["doctor --context arn:aws:e", "doctor --context=pr", "status --output=j", "status --output="];
  const found = await bash(lines.map((line) => `switchback ${line}`));
  assert.deepEqual(found, [["eks:eu"], ["prod"], ["json"], FORMATS.split(" ")]);
});

describe("switchback complete", () => {
  const server = new MemoryServer();
  for (const name of ["shop", "shop-test", "web"]) server.add("/api/v1/namespaces", name);
  let api: FakeApi;
  before(async () => {
    api = await fakeApi(server.respond);
  });
  after(() => api.close());
  const complete = async (...args: string[]) => {
    const kubeconfig = await files.kubeconfig(api.url);
    const { code, stdout, stderr } = await runHere(["complete", ...args], { KUBECONFIG: kubeconfig });
    assert.deepEqual([code, stderr], [0, ""]);
    return stdout.split("\n").slice(0, -1);
  };

  it("prints the namespaces that begin with the word, from the cluster that the line names", async () => {
    assert.deepEqual(await complete("namespaces", "--", "sh", "switchback", "status", "--in"), ["shop", "shop-test"]);
    assert.deepEqual(await complete("namespaces", "--", "--in=w", "switchback", "status"), ["web"]);
    const line = ["switchback", "status", "--as=jane", "--kubeconfig", "/nonexistent", "--in"];
    assert.deepEqual(await complete("namespaces", "--", "", ...line), []);
    await complete("namespaces", "--", "", "switchback", "status", "--as=jane", "--in");
    assert.equal(api.calls.at(-1)?.headers["impersonate-user"], "jane");
  });

  it("prints nothing, and no error, if it cannot read the values", async () => {
    assert.deepEqual(await complete("names", "--", "", "switchback", "status", "--name"), []);
    assert.deepEqual(await complete("contexts", "--", "x", "switchback", "--context"), ["x"]);
    assert.deepEqual(await complete("frobs", "--", ""), []);
  });
});
