import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";

/** Time that a component has to end by itself before it is killed. */
const STOP_GRACE_MS = 10_000;
const TAIL_LINES = 15;

/** A running program of the test cluster. */
export interface Component {
  readonly name: string;
  readonly pid: number;
  /** How it ended, as an exit code or a signal; undefined while it runs. */
  readonly exited: string | undefined;
  /**
   * Sends SIGTERM or the given signal, then SIGKILL if the program does not end in time. Resolves when the program
   * has ended.
   */
  stop(signal?: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** The last lines of its log. */
  logTail(): Promise<string>;
}

/**
 * Starts programs whose output goes to `<logs>/<name>.log`, and ends them by their own process ids. It ends them when
 * asked. If this process dies first, the watchdog ends them and removes `folder`.
 */
export class Processes {
  readonly #logs: string;
  readonly #watchdog: ChildProcess;

  constructor(folder: string, logs: string) {
    this.#logs = logs;
    this.#watchdog = startWatchdog(folder);
  }

  start(name: string, command: string, args: string[], env: Record<string, string> = {}): Component {
    const logFile = join(this.#logs, `${name}.log`);
    const log = openSync(logFile, "a");
    // The program has its own session. So Ctrl-C in the terminal reaches only this process, which then stops the
    // programs in order.
    const child = spawn(command, args, {
      detached: true,
      stdio: ["ignore", log, log],
      env: { PATH: process.env.PATH, ...env },
    });
    closeSync(log);
    child.unref();
    const pid = child.pid;
    if (pid === undefined) throw new Error(`${name}: ${command} could not be started`);
    this.#watchdog.stdin?.write(`+ ${pid}\n`);
    let exited: string | undefined;
    child.once("exit", (code, signal) => {
      exited = signal ?? `code ${code}`;
      this.#watchdog.stdin?.write(`- ${pid}\n`);
    });
    return {
      name,
      pid,
      get exited() {
        return exited;
      },
      stop: (signal = "SIGTERM") => stopChild(child, signal),
      logTail: async () => (await readFile(logFile, "utf8")).trimEnd().split("\n").slice(-TAIL_LINES).join("\n"),
    };
  }

  /** Ends the watchdog, after all components have stopped. The watchdog removes the folder unless `keepFolder`. */
  async close(keepFolder: boolean): Promise<void> {
    if (keepFolder) this.#watchdog.stdin?.write("keep\n");
    this.#watchdog.stdin?.end();
    if (hasEnded(this.#watchdog)) return;
    this.#watchdog.ref();
    await once(this.#watchdog, "exit");
  }
}

/**
 * A shell that reads which processes run. Its input ends when its parent dies, for whatever reason. Then it kills the
 * processes that still run, and removes the folder.
 */
const WATCHDOG = `
pids=""
keep=""
while read -r op pid; do
  case "$op" in
    +) pids="$pids $pid" ;;
    -) rest=""; for p in $pids; do [ "$p" = "$pid" ] || rest="$rest $p"; done; pids="$rest" ;;
    keep) keep=yes ;;
  esac
done
for p in $pids; do kill -KILL "$p"; done
[ -n "$keep" ] || rm -rf -- "$1" || { sleep 1; rm -rf -- "$1"; }
`;

function startWatchdog(folder: string): ChildProcess {
  const watchdog = spawn("/bin/sh", ["-c", WATCHDOG, "switchback-test-watchdog", folder], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  // If a test forgets to stop its cluster, this child and its pipe do not keep the test's process alive. The process
  // ends, and the watchdog cleans up.
  watchdog.unref();
  (watchdog.stdin as Socket).unref();
  return watchdog;
}

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
