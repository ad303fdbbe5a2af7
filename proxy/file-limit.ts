import { readFileSync } from "node:fs";

/** Descriptors of the process that are no connection's: listeners, DNS, the health server, libuv's own. */
const RESERVE = 64;
/** The client's socket and the upstream's. */
const PER_CONNECTION = 2;

/**
 * How many connections the process has descriptors for, at most `wanted`. Beyond that libuv takes a client in only to close it without a
 * word, which it reads as an empty answer; a limit of ours gives it a reset, and is counted.
 * `limits` is the text of /proc/self/limits (Linux); undefined or without the line: no limit known.
 */
export function affordableConnections(wanted: number, limits: string | undefined): number {
  const soft = /^Max open files\s+(\d+)/m.exec(limits ?? "")?.[1];
  if (soft === undefined) return wanted;
  return Math.max(1, Math.min(wanted, Math.floor((Number(soft) - RESERVE) / PER_CONNECTION)));
}

export function readProcessLimits(): string | undefined {
  try {
    return readFileSync("/proc/self/limits", "utf8");
  } catch {
    return undefined;
  }
}
