import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { chartEnv, chartFlags, ROOT } from "../chart.ts";
import { treeFile } from "../tree-file.ts";

const READY_MS = 60_000;
const POLL_MS = 50;
/** UID of `nobody` on Debian and most other systems. */
const UNPRIVILEGED_ID = "65534";

/** A proxy, Switchback's or another one, as a separate process. */
export interface ProxyProcess {
  readonly pid: number;
  readonly child: ChildProcess;
  /** Rejects with the end of the log when the process ends by itself; never resolves. */
  readonly ended: Promise<never>;
  /** Returns the end of its log. */
  logTail(): string;
  /** Stops it and waits; returns the exit code, or the signal's name. */
  stop(): Promise<number | string | null>;
}

/**
 * Runs a program as an ordinary user without capabilities, like in a pod. root's rights would hide limits, such as
 * the limit of pipe pages (pipe(7), pipe-user-pages-soft). Without root, it runs as the current user. `cpus` pins it
 * to cores, in taskset's format.
 */
export function startProcess(command: readonly string[], logFile: string, cpus?: number | string): ProxyProcess {
  const isRoot = process.getuid?.() === 0;
  const drop = ["setpriv", `--reuid=${UNPRIVILEGED_ID}`, `--regid=${UNPRIVILEGED_ID}`, "--clear-groups"];
  const caps = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"];
  const pinned = cpus === undefined ? [] : ["taskset", "-c", String(cpus)];
  const [program = "", ...args] = [...pinned, ...(isRoot ? [...drop, ...caps] : []), ...command];
  const output = openSync(logFile, "w");
  const child = spawn(program, args, { cwd: "/", env: { PATH: process.env.PATH }, stdio: ["ignore", output, output] });
  closeSync(output);
  const { pid } = child;
  if (pid === undefined) throw new Error(`${program} did not start: is it installed?`);
  // Children end with this process: an interrupted benchmark must not leave a proxy running.
  const killNow = (): void => void child.kill("SIGKILL");
  process.once("exit", killNow);
  child.once("exit", () => process.off("exit", killNow));
  const logTail = (): string => readFileSync(logFile, "utf8").slice(-2_000);
  let isStopped = false;
  const ended = once(child, "exit").then(([code, signal]) => {
    if (isStopped) return new Promise<never>(() => {});
    throw new Error(`${command[0]} ended (${code ?? signal}):\n${logTail()}`);
  });
  ended.catch(() => {});
  const stop = async (): Promise<number | string | null> => {
    isStopped = true;
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    return child.exitCode ?? child.signalCode;
  };
  return { pid, child, ended, logTail, stop };
}

/** Engines that an option can select. */
export const ENGINES = ["portable", "linux"] as const;
export type EngineName = (typeof ENGINES)[number];

/**
 * The command of our proxy or another checkout's, with the flags and environment of its chart, an engine and a number
 * of workers.
 */
export function switchbackCommand(engine: EngineName, workers: number, configFile: string, tree = ROOT): string[] {
  const env = Object.entries(chartEnv("proxy", tree)).map(([name, value]) => `${name}=${value}`);
  const program = treeFile(tree, "tools/bench/proxy/server.ts", "bench/proxy-server.ts");
  const node = [process.execPath, ...chartFlags("proxy", tree), program, engine, `${workers}`, configFile];
  return ["env", ...env, ...node];
}

/** Resolves when the proxy's `/readyz` is OK. */
export async function untilReady(proxy: ProxyProcess, healthPort: number): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline) {
    const response = await Promise.race([fetchClosing(healthPort, "/readyz"), proxy.ended]);
    if (response?.status === 200) return;
    await delay(POLL_MS);
  }
  throw new Error(`the proxy is not ready after ${READY_MS / 1_000} s:\n${proxy.logTail()}`);
}

/**
 * For each metric of the proxy, the sum over all labels, without histogram buckets. Undefined if the proxy does not
 * respond.
 */
export async function metricsOf(healthPort: number): Promise<Readonly<Record<string, number>> | undefined> {
  const response = await fetchClosing(healthPort, "/metrics");
  if (response?.status !== 200) return undefined;
  const sums: Record<string, number> = {};
  for (const line of response.text.split("\n")) {
    const match = /^switchback_proxy_(\w+?)(?:\{[^}]*\})? (\S+)$/.exec(line);
    if (match === null || match[1]?.endsWith("_bucket")) continue;
    sums[match[1] ?? ""] = (sums[match[1] ?? ""] ?? 0) + Number(match[2]);
  }
  return sums;
}

/** Closes its connection, which would otherwise count among the proxy's files. */
async function fetchClosing(port: number, path: string): Promise<{ status: number; text: string } | undefined> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { connection: "close" },
      signal: AbortSignal.timeout(10_000),
    });
    return { status: response.status, text: await response.text() };
  } catch {
    return undefined;
  }
}

/** Number of a process's open files by kind. */
export interface OpenFiles {
  readonly sockets: number;
  /** Number of pipe ends, two per pipe. */
  readonly pipes: number;
  readonly others: number;
}

/** Reads /proc (Linux only). */
export function openFilesOf(pid: number): OpenFiles {
  const count = { sockets: 0, pipes: 0, others: 0 };
  for (const name of readdirSync(`/proc/${pid}/fd`)) {
    let link = "";
    try {
      link = readlinkSync(`/proc/${pid}/fd/${name}`);
    } catch {
      continue; // Closed since the list was read.
    }
    count[link.startsWith("socket:") ? "sockets" : link.startsWith("pipe:") ? "pipes" : "others"] += 1;
  }
  return count;
}
