import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { daemonGroup } from "./cgroup.ts";
import { LOGS, type NamespaceName } from "./layout.ts";
import { NotHere } from "./requirements.ts";
import { inNamespace } from "./run.ts";

const TAIL_LINES = 15;
const POLL_MS = 100;

/** A program of the cluster that keeps running after the program that started it has ended. */
export interface Daemon {
  name: string;
  pid: number;
  /** The file with its output. */
  log: string;
  /** How the program ended, if it ended while this process ran. */
  readonly exited: string | undefined;
}

export interface DaemonOptions {
  namespace: NamespaceName;
  env?: Record<string, string>;
}

/**
 * Starts a program in a network namespace and in the cluster's cgroup. Its output goes to `<logs>/<name>.log`. The
 * process enters the cgroup before it becomes the program, so that everything it starts is in the cgroup too.
 */
export function startDaemon(name: string, command: string, args: string[], options: DaemonOptions): Daemon {
  const path = join(LOGS, `${name}.log`);
  const log = openSync(path, "a");
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
    log: path,
    get exited() {
      return exited;
    },
  };
}

async function logTail(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
}

/**
 * Messages of Go's programs and of HAProxy if they cannot listen at an address. They contain the address and the
 * reason.
 */
const REFUSED = [
  /listen \w+ (?<address>\S+): bind: (?<why>address already in use|cannot assign requested address)/,
  /cannot bind socket \((?<why>[^)]+)\) for \[(?<address>[^\]]+)\]/,
];

function addressRefused(log: string): string | undefined {
  for (const pattern of REFUSED) {
    const { address, why } = pattern.exec(log)?.groups ?? {};
    if (address !== undefined) return `${address}: ${why?.toLowerCase()}`;
  }
  return undefined;
}

/**
 * Polls until `check` has no objection. `check` returns or throws what is missing.
 * @throws if a daemon has ended, or after `seconds`. The error has the last objection and the last lines of the
 * daemons' logs. It is NotHere if a log says that the daemon's address is taken.
 */
export async function until(
  what: string,
  seconds: number,
  check: () => Promise<string | undefined>,
  ...daemons: Daemon[]
): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const missing = await check().catch((error: unknown) => (error instanceof Error ? error.message : String(error)));
    if (missing === undefined) return;
    for (const { name, log, exited } of daemons) {
      if (exited === undefined) continue;
      const tail = await logTail(log);
      const taken = addressRefused(tail);
      if (taken !== undefined) throw new NotHere(`${name} cannot listen at ${taken} (${log})`);
      throw new Error(`${name} ended (${exited})\n${tail}`);
    }
    if (Date.now() > deadline) {
      const tails = await Promise.all(daemons.map(({ log }) => logTail(log)));
      throw new Error([`timeout after ${seconds} s, waiting for: ${what}: ${missing}`, ...tails].join("\n"));
    }
    await delay(POLL_MS);
  }
}
