import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runTool, type ToolResult } from "#test/cluster/tools.ts";

interface Trial {
  readonly args: readonly string[];
  readonly code: number;
  /** Patterns of the standard output and the standard error. */
  readonly stdout: RegExp;
  readonly stderr: RegExp;
  /** Whether the command starts itself as another process. */
  readonly startsItself?: boolean;
}

const NOTHING = /^$/;
const POD = "kind: Pod\nmetadata: { name: web }\nspec: { containers: [] }\n";
const HOSTS = "203.0.113.5 shop.example.com\n";

/** Commands that a user tries first. None needs a cluster. `tryCommand` creates their files. */
const trials = (version: string): readonly Trial[] => [
  { args: ["version", "--client"], code: 0, stdout: new RegExp(`^switchback ${version}\n$`), stderr: NOTHING },
  { args: ["--help"], code: 0, stdout: /^Usage: switchback [\s\S]*\n {2}doctor [\s\S]*\n/, stderr: NOTHING },
  { args: ["doctor", "--help"], code: 0, stdout: /^Usage: switchback doctor [\s\S]*--probe/, stderr: NOTHING },
  {
    args: ["inject", "-f", "pod.yaml", "--hosts", "hosts"],
    code: 0,
    stdout: /"hostAliases": \[\{"ip": "203\.0\.113\.5", "hostnames": \["shop\.example\.com"\]\}\]/,
    stderr: /^Pod web: injected: 1 names\n$/,
  },
  { args: ["demo"], code: 0, stdout: /\n {2}through the relay: 200 Ingress shop\/added; client /, stderr: NOTHING },
  // The command starts itself to read the configuration. It ends where it would need a cluster.
  {
    startsItself: true,
    args: ["agent"],
    code: 2,
    stdout: NOTHING,
    stderr: /^switchback: no cluster configured: [^\n]*\n$/,
  },
  {
    startsItself: true,
    args: ["agent", "--set", "nonsense=1"],
    code: 2,
    stdout: NOTHING,
    stderr: /^switchback: .*nonsense[^\n]*\n$/,
  },
];

/**
 * Runs a command like a user with a new home directory. Checks what it prints, and that it leaves no temporary files.
 * Throws an Error that describes an unexpected result. `isEmulated`: the kernel cannot start the program, so trials
 * that start it again are left out.
 */
export async function tryCommand(
  command: readonly [string, ...string[]],
  version: string,
  isEmulated = false,
): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "switchback-home-"));
  try {
    const temporary = join(home, "tmp");
    mkdirSync(temporary);
    writeFileSync(join(home, "pod.yaml"), POD);
    writeFileSync(join(home, "hosts"), HOSTS);
    const [program, ...first] = command;
    for (const trial of trials(version)) {
      if (isEmulated && trial.startsItself) continue;
      const args = trial.args.map((arg) => (["pod.yaml", "hosts"].includes(arg) ? join(home, arg) : arg));
      const env = { HOME: home, TMPDIR: temporary };
      const result = await runTool(program, [...first, ...args], env);
      expect(trial, result);
      const left = readdirSync(temporary);
      if (left.length > 0) throw new Error(`${trial.args.join(" ")} left ${left.join(", ")} behind`);
    }
  } finally {
    rmSync(home, { recursive: true });
  }
}

function expect({ args, code, stdout, stderr }: Trial, result: ToolResult): void {
  if (result.code === code && stdout.test(result.stdout) && stderr.test(result.stderr)) return;
  const said = `${result.stdout.slice(-2000)}\n${result.stderr.slice(-2000)}`;
  throw new Error(`switchback ${args.join(" ")} ended with code ${result.code} and said:\n${said}`);
}
