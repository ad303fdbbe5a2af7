import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** Time that a component has to end by itself before it is killed. */
const STOP_GRACE_MS = 10_000;
const TAIL_LINES = 15;
const POLL_MS = 50;

/** A program that a test has started. */
export interface Program {
  readonly name: string;
  readonly pid: number;
  /** How it ended, as an exit code or a signal; undefined while it runs. */
  readonly exited: string | undefined;
  /** The last lines of its log. */
  logTail(): Promise<string>;
}

/** A running program of the test cluster. */
export interface Component extends Program {
  /**
   * Sends SIGTERM or the given signal, then SIGKILL if the program does not end in time. Resolves when the program
   * has ended.
   */
  stop(signal?: "SIGTERM" | "SIGKILL"): Promise<void>;
}

/** The last lines of a log; empty if the file is missing. */
export async function logTail(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.trimEnd().split("\n").slice(-TAIL_LINES).join("\n");
}

/**
 * Polls until `check` has no objection. `check` returns or throws what is missing.
 * @throws if a program has ended, or after `seconds`. The error has the last objection and the last lines of the
 * programs' logs.
 */
export async function until(
  what: string,
  seconds: number,
  check: () => Promise<string | undefined>,
  ...programs: Program[]
): Promise<void> {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const missing = await check().catch((error: unknown) => (error instanceof Error ? error.message : String(error)));
    if (missing === undefined) return;
    for (const { name, exited, logTail: tailOf } of programs) {
      if (exited !== undefined) throw new Error(`${name} ended (${exited})\n${await tailOf()}`);
    }
    if (Date.now() > deadline) {
      const tails = await Promise.all(programs.map((program) => program.logTail()));
      throw new Error([`timeout after ${seconds} s, waiting for: ${what}: ${missing}`, ...tails].join("\n"));
    }
    await delay(POLL_MS);
  }
}

/**
 * Starts programs whose output goes to `<logs>/<name>.log`, and ends them by their own process ids. On Linux, they
 * also end if this process dies first; then `folder` stays.
 */
export class Processes {
  readonly #logs: string;
  readonly #folder: string;

  constructor(folder: string, logs: string) {
    this.#logs = logs;
    this.#folder = folder;
  }

  start(name: string, command: string, args: string[], env: Record<string, string> = {}): Component {
    const logFile = join(this.#logs, `${name}.log`);
    const log = openSync(logFile, "a");
    // The program has its own session. So Ctrl-C in the terminal reaches only this process, which then stops the
    // programs in order.
    const [program = "", ...all] = [...WITH_PARENT, command, ...args];
    const child = spawn(program, all, {
      detached: true,
      stdio: ["ignore", log, log],
      env: { PATH: process.env.PATH, ...env },
    });
    closeSync(log);
    child.unref();
    const pid = child.pid;
    if (pid === undefined) throw new Error(`${name}: ${command} could not be started`);
    let exited: string | undefined;
    child.once("exit", (code, signal) => {
      exited = signal ?? `code ${code}`;
    });
    return {
      name,
      pid,
      get exited() {
        return exited;
      },
      stop: (signal = "SIGTERM") => stopChild(child, signal),
      logTail: () => logTail(logFile),
    };
  }

  /** Removes the folder unless `keepFolder`, after all components have stopped. */
  async close(keepFolder: boolean): Promise<void> {
    if (!keepFolder) await rm(this.#folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Lets the kernel end a program when its parent dies, for whatever reason (prctl(2), PR_SET_PDEATHSIG). */
const WITH_PARENT = process.platform === "linux" ? ["setpriv", "--pdeathsig", "KILL", "--"] : [];

async function stopChild(child: ChildProcess, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
  if (hasEnded(child)) return;
  child.ref();
  const gone = once(child, "exit");
  child.kill(signal);
  const killer = setTimeout(() => child.kill("SIGKILL"), STOP_GRACE_MS);
  await gone;
  clearTimeout(killer);
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
