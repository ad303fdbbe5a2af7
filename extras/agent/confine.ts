import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { AgentSettings } from "./config.ts";
import type { Allowed, FileRight } from "./landlock.ts";

/** Environment variable of the restarted program: the version of Landlock. It prevents a second restart. */
const CONFINED = "SWITCHBACK_CONFINED";

interface ConfineOptions {
  readonly config: Pick<AgentSettings, "kubeletRoot" | "healthPort">;
  /** Path where the node's hosts file is mounted. */
  readonly nodeHosts?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: Logger;
  /** Command that starts this program again: the program, then its arguments. */
  readonly command: readonly [string, ...string[]];
}

/**
 * Restarts this program under Landlock, in the same process, so that all of its threads are restricted. It can then
 * open existing files below the kubelet's `pods` directory, and the node's hosts file, for reading and writing. It
 * cannot create, remove, rename or link anything there or elsewhere. It cannot write other files or execute any file
 * but itself. It can connect only to the API server's TCP port, and bind only the health port. Returns only if the
 * program is confined already or cannot be confined, and logs which.
 */
export async function confine({ config, nodeHosts, env, log, command }: ConfineOptions): Promise<void> {
  const version = env[CONFINED];
  if (version !== undefined) {
    log.info(
      { landlock: Number(version) },
      "confined by Landlock: can change hosts files, cannot create, remove or execute files",
    );
    return;
  }
  try {
    // Only the program before the restart loads this module.
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
      // The agent opens each directory on the path to a hosts file.
      { path: "/", rights: ["read-dir"] },
      { path: join(kubeletRoot, "pods"), rights: [...read, "write-file", "truncate"] },
      // Only this file: its directory is not the node's, and the rule does not cover a new file with the same name.
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
 * Lists paths that together cover everything outside a directory. Landlock's rules have no exceptions, so this names
 * the siblings of each part of its path.
 */
function pathsBeside(directory: string): string[] {
  const parent = dirname(directory);
  if (parent === directory) return [];
  const beside = readdirSync(parent).map((name) => join(parent, name));
  return [...pathsBeside(parent), ...beside.filter((path) => path !== directory)];
}
