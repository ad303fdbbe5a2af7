import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { AgentSettings } from "./config.ts";
import type { Allowed, FileRight } from "./landlock.ts";

/** Set for the program that runs under Landlock: its version, so that it does not restart itself again. */
const CONFINED = "SWITCHBACK_CONFINED";

interface ConfineOptions {
  readonly config: Pick<AgentSettings, "kubeletRoot" | "healthPort">;
  /** The hosts file of the node, where it is mounted. */
  readonly nodeHosts?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Logger;
  /** What starts this program again, with its arguments: the program first. */
  readonly command: readonly [string, ...string[]];
}

/**
 * Restarts this program under Landlock, in the same process, so that all of its threads are restricted. Of the
 * kubelet's directory it may then open existing files below `pods` for reading and writing, and of the node's own
 * files the hosts file. It cannot create, remove, rename or link anything there or elsewhere, write or execute
 * other files (but itself), connect to another TCP port than the API server's or bind another than the health port.
 * Returns only if it is confined already, or cannot be, which is logged.
 */
export async function confine({ config, nodeHosts, env, log, command }: ConfineOptions): Promise<void> {
  const version = env[CONFINED];
  if (version !== undefined) {
    log.info({ landlock: Number(version) }, "confined: hosts files can be changed, nothing made, removed or executed");
    return;
  }
  try {
    // Loaded only by the program that is replaced.
    const { programFiles, restrictThread } = await import("./landlock.ts");
    const landlock = restrictThread(allowedFor(config, nodeHosts, env, programFiles()));
    const values = Object.entries({ ...env, [CONFINED]: String(landlock) });
    const present = values.filter((entry): entry is [string, string] => entry[1] !== undefined);
    process.execve?.(command[0], [...command], Object.fromEntries(present));
  } catch (error) {
    log.warn({ error: describeError(error) }, "not confined: Landlock cannot be used here");
  }
}

function allowedFor(
  { kubeletRoot, healthPort }: ConfineOptions["config"],
  nodeHosts: string | undefined,
  env: ConfineOptions["env"],
  programs: readonly string[],
): Allowed {
  const read: readonly FileRight[] = ["read-file", "read-dir"];
  return {
    files: [
      ...pathsBeside(kubeletRoot).map((path) => ({ path, rights: read })),
      // Each directory on the way to a hosts file is opened.
      { path: "/", rights: ["read-dir"] },
      { path: join(kubeletRoot, "pods"), rights: [...read, "write-file", "truncate"] },
      // That file alone: its directory is not the node's, and another file of that name is not covered.
      ...(nodeHosts === undefined
        ? []
        : [{ path: nodeHosts, rights: ["read-file", "write-file", "truncate"] as const }]),
      { path: "/dev/null", rights: ["write-file"] },
      ...programs.map((path) => ({ path, rights: ["execute"] as const })),
    ],
    bindPorts: [healthPort],
    connectPorts: [Number(env.KUBERNETES_SERVICE_PORT ?? 443)],
  };
}

/**
 * Everything outside of a directory: Landlock's rules have no exceptions, so the neighbours of each part of its
 * path are named.
 */
function pathsBeside(directory: string): string[] {
  const parent = dirname(directory);
  if (parent === directory) return [];
  const beside = readdirSync(parent).map((name) => join(parent, name));
  return [...pathsBeside(parent), ...beside.filter((path) => path !== directory)];
}
