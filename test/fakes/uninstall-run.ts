import type { TestContext } from "node:test";
import { releasePods, type UninstallOptions } from "#cli/uninstall/release-pods.ts";
import { NAMESPACE } from "./installed.ts";
import type { MemoryServer } from "./memory-server.ts";
import { skipWaits } from "./skipped-waits.ts";

export interface UninstallRun extends Partial<Omit<UninstallOptions, "client" | "now" | "say">> {
  readonly onWait?: (elapsed: number) => void;
}

/** Runs the release of pods. Returns the printed lines, the time of each in seconds, and the waits. */
export function runUninstall(t: TestContext, api: MemoryServer, { onWait, ...options }: UninstallRun = {}) {
  const time = skipWaits(t, onWait);
  const said: string[] = [];
  const saidAt: number[] = [];
  const say = (line: string) => {
    said.push(line);
    saidAt.push(time.elapsed() / 1000);
  };
  const rest = { client: api.client, namespace: NAMESPACE, force: false, timeoutMs: 60_000, now: Date.now, say };
  return { done: releasePods({ ...rest, ...options }), said, saidAt, time };
}
