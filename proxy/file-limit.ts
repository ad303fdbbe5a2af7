import { readFileSync } from "node:fs";

/** Descriptors for other purposes than connections: listeners, DNS, the health server, libuv. */
const RESERVE = 64;
/** The client's socket and the upstream's. */
const PER_CONNECTION = 2;

/**
 * Clamps `wanted` to the number of connections that the process has file descriptors for. Beyond that libuv accepts and closes a client
 * silently, which the client reads as an empty answer; the proxy's limit resets the client and counts it.
 * `limits` is the text of /proc/self/limits (Linux); without its line, no limit is known. `filesOfOthers` descriptors are left to other
 * parts of the process.
 */
export function clampToFileLimit(wanted: number, limits: string, filesOfOthers = 0): number {
  const soft = /^Max open files\s+(\d+)/m.exec(limits)?.[1];
  if (soft === undefined) return wanted;
  return Math.max(1, Math.min(wanted, Math.floor((Number(soft) - RESERVE - filesOfOthers) / PER_CONNECTION)));
}

/** The text of /proc/self/limits; empty where there is none. */
export function readProcessLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "utf8");
  } catch {
    return "";
  }
}
