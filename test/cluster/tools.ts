import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { bareEnvironment } from "../processes.ts";

/** Nothing hangs for ever; `helm uninstall` alone may take five minutes. */
const TIMEOUT_MS = 360_000;

/** `switchback` of this checkout. */
export const SWITCHBACK = join(import.meta.dirname, "..", "..", "cli", "main.ts");
/** What `switchback` says on standard error while it waits: it depends on how busy the machine is. */
const PROGRESS = /^.* \(\d+ s\)\n/gm;

/** What a command line tool answered. A failure is a `code` that is not 0, never an exception. */
export interface ToolResult {
  stdout: string;
  stderr: string;
  code: number;
}

export interface ToolOptions {
  /** Standard input, as for `apply -f -`. */
  input?: string;
  /** Another identity than the admin: a path. */
  kubeconfig?: string;
}

/**
 * Runs `command` with these variables and `bareEnvironment` only: nothing of the user's own configuration is seen or
 * written.
 */
export async function runTool(
  command: string,
  args: string[],
  env: Record<string, string>,
  input = "",
): Promise<ToolResult> {
  const child = spawn(command, args, {
    env: { ...bareEnvironment(), ...env },
    stdio: ["pipe", "pipe", "pipe"],
    timeout: TIMEOUT_MS,
  });
  const ended = new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code ?? 1));
  });
  // A tool that does not read its input closes it.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [code, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { stdout, stderr, code };
}

/** Runs `switchback` of this checkout as `runTool` does. Its progress is left out of `stderr`. */
export async function runSwitchback(
  args: readonly string[],
  env: Record<string, string>,
  input?: string,
): Promise<ToolResult> {
  const { stderr, ...rest } = await runTool(process.execPath, [SWITCHBACK, ...args], env, input);
  return { ...rest, stderr: stderr.replaceAll(PROGRESS, "") };
}
