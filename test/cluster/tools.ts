import { spawn } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { bareEnvironment } from "../processes.ts";

/** Timeout of each command. `helm uninstall` alone may take five minutes. */
const TIMEOUT_MS = 360_000;

/** The main file of this checkout's `switchback`. */
export const SWITCHBACK = join(import.meta.dirname, "..", "..", "cli", "main.ts");
/** Progress lines that `switchback` writes to standard error while it waits. They depend on how busy the machine is. */
const PROGRESS = /^.* \.\.\.\n/gm;

/** The result of a command-line tool. A failure is a `code` other than 0, never an exception. */
export interface ToolResult {
  stdout: string;
  stderr: string;
  code: number;
}

export interface ToolOptions {
  /** Standard input, as for `apply -f -`. */
  input?: string;
  /** Path of a kubeconfig for another identity than the admin. */
  kubeconfig?: string;
}

/**
 * Runs `command` with these variables and `bareEnvironment` only, so that it neither sees nor changes the user's own
 * configuration.
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
  // If a tool does not read its input, it closes the pipe.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const [code, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { stdout, stderr, code };
}

/** Runs `switchback` of this checkout as `runTool` does. Lines that say what it waits for are removed from `stderr`. */
export async function runSwitchback(
  args: readonly string[],
  env: Record<string, string>,
  input?: string,
): Promise<ToolResult> {
  const { stderr, ...rest } = await runTool(process.execPath, [SWITCHBACK, ...args], env, input);
  return { ...rest, stderr: stderr.replaceAll(PROGRESS, "") };
}
