import { setTimeout as delay } from "node:timers/promises";
import { AGENTS, type Bed } from "../controller/bed.ts";
import { settingsOf } from "../controller/phases.ts";
import { type ServedProcess, serve } from "../controller/process.ts";
import { cpuOf } from "../process.ts";
import type { Front } from "./processes.ts";

/** The settings that make a controller follow agents. */
export const FOLLOWS_AGENTS: readonly string[] = ["agent.enabled=true"];

/**
 * Sets the DaemonSet's status as its controller writes it in the middle of a rollout: this many agents, of which
 * `updated` were replaced.
 */
export async function setAgents({ cluster }: Bed, agents: number, updated: number): Promise<void> {
  const path = `/apis/apps/v1/namespaces/${AGENTS}/daemonsets/switchback-agent/status`;
  const status = {
    currentNumberScheduled: agents,
    desiredNumberScheduled: agents,
    numberMisscheduled: 0,
    numberReady: agents,
    updatedNumberScheduled: updated,
  };
  const answer = await cluster.call({
    method: "PATCH",
    path,
    body: { status },
    contentType: "application/merge-patch+json",
  });
  if (answer.status !== 200) throw new Error(`PATCH ${path} answered ${answer.status}`);
}

/** Starts the checkout's controller behind a front. */
export async function startController(
  bed: Bed,
  front: Front,
  settings: readonly string[],
  { nodeFlags = [], token = "controller" }: { readonly nodeFlags?: readonly string[]; readonly token?: string } = {},
): Promise<ServedProcess> {
  return await serve(bed.cluster, "controller", [...settingsOf(bed), ...settings], {
    nodeFlags,
    program: { path: bed.program, tree: bed.tree },
    through: { url: front.url, token },
  });
}

const QUIET_SHARE = 0.1;
const QUIET_SECONDS = 4;
/** Maximum number of bytes per second in responses at rest, such as for Leases. */
const QUIET_BYTES = 100_000;
const MOST_SECONDS = 240;

/** Waits until, for some seconds, a process has used less than a tenth of a core and the front has sent few bytes. */
export async function untilQuiet({ pid, ended }: ServedProcess, front: Front): Promise<void> {
  let quiet = 0;
  let before = { cpu: cpuOf(pid), bytes: (await front.activity()).bytes };
  for (let second = 0; second < MOST_SECONDS && quiet < QUIET_SECONDS; second += 1) {
    await Promise.race([delay(1_000), ended]);
    const { pending, bytes } = await front.activity();
    const now = { cpu: cpuOf(pid), bytes };
    const isQuiet = now.cpu - before.cpu < QUIET_SHARE * 1_000 && now.bytes - before.bytes < QUIET_BYTES;
    quiet = isQuiet && pending === 0 ? quiet + 1 : 0;
    before = now;
  }
}
