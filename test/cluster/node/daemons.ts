import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { daemonGroup } from "./cgroup.ts";
import { LOGS, type NamespaceName } from "./layout.ts";
import { inNamespace } from "./run.ts";

const TAIL_LINES = 15;
const POLL_MS = 100;

/** A program of the cluster that outlives the one that started it. */
export interface Daemon {
  name: string;
  pid: number;
  /** Its exit, if it has ended while this process ran. */
  readonly exited: string | undefined;
}

export interface DaemonOptions {
  namespace: NamespaceName;
  env?: Record<string, string>;
}

/**
 * Starts a program in a network namespace and in the cluster's cgroup, its output in `<logs>/<name>.log`. It enters the
 * cgroup before it becomes that program, so that nothing it starts can be outside.
 */
export function startDaemon(name: string, command: string, args: string[], options: DaemonOptions): Daemon {
  const log = openSync(logFile(name), "a");
  const [program, all] = inNamespace(options.namespace, command, args);
  const enter = `echo $$ > "$0/cgroup.procs" && exec "$@"`;
  const child = spawn("/bin/sh", ["-c", enter, daemonGroup(), program, ...all], {
    detached: true,
    cwd: "/",
    stdio: ["ignore", log, log],
    env: { PATH: process.env.PATH, HOME: "/nonexistent", ...options.env },
  });
  closeSync(log);
  child.unref();
  let exited: string | undefined;
  child.once("error", (error) => {
    exited = String(error);
  });
  child.once("exit", (code, signal) => {
    exited = signal ?? `code ${code}`;
  });
  return {
    name,
    pid: child.pid ?? 0,
    get exited() {
      return exited;
    },
  };
}

export function logFile(name: string): string {
  return join(LOGS, `${name}.log`);
}

export async function logTail(name: string): Promise<string> {
  const text = await readFile(logFile(name), "utf8").catch(() => "");
  return text.trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
}

/**
 * Polls until `check` has no objection (it returns or throws what is missing).
 * @throws when the daemon has ended, or after `seconds`: with the last objection and the end of the daemon's log.
 */
export async function until(
  what: string,
  seconds: number,
  check: () => Promise<string | undefined>,
  daemon?: Daemon,
): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const missing = await check().catch((error: unknown) => (error instanceof Error ? error.message : String(error)));
    if (missing === undefined) return;
    const tail = async () => (daemon === undefined ? "" : `\n${await logTail(daemon.name)}`);
    if (daemon?.exited !== undefined) throw new Error(`${daemon.name} ended (${daemon.exited})${await tail()}`);
    if (Date.now() > deadline) throw new Error(`${what}: not after ${seconds} s: ${missing}${await tail()}`);
    await delay(POLL_MS);
  }
}
