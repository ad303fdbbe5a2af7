import { closeSync, lstatSync, readFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import type { Reason } from "#hostmap/types.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { FileChange } from "./file-bytes.ts";
import {
  attempt,
  type ExpectedFile,
  type HostsFileUpdate,
  handle,
  openDirectory,
  Refusal,
  stampOf,
  updateFile,
} from "./hosts-file.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";

/** The hosts file of the node, mounted into the agent's pod as a single file. */
export interface NodeHostsFile {
  /** Applies `change`. Never throws. */
  update(change: FileChange): HostsFileUpdate;
  /** The current stamp; undefined if there is no file. */
  stamp(): string | undefined;
  /**
   * Whether the node's file was replaced, for example by an editor that renames a new file over it. The mount of a
   * single file keeps the old file until the container is restarted.
   */
  isReplaced(): boolean;
  close(): void;
}

/** How long an empty file is left to an editor that truncates and then writes, in milliseconds. */
const EMPTY_MS = 2_000;

/**
 * Opens the node's hosts file at `path`. Follows no symbolic link in any part of the path. `owner` is the uid that
 * the file must have. Throws `config-invalid` if its directory cannot be opened.
 */
export function openNodeHostsFile(
  path: string,
  owner = 0,
  { bytes: maxBytes } = hostsFileLimits(),
  readMounts = ownMounts,
): NodeHostsFile {
  const directory = open(dirname(path));
  const file = `${handle(directory)}/${basename(path)}`;
  const expected: ExpectedFile = { owner, maxBytes, strange: { code: "node-hosts-not-plain" }, refuses: justEmptied };
  const first = mountedFrom(readMounts(), path);
  const stat = () => lstatSync(file, { bigint: true });
  return {
    update(change) {
      const outcome = attempt(() => updateFile(file, expected, change));
      return outcome instanceof Refusal ? outcome.outcome : outcome;
    },
    stamp() {
      const stamp = attempt(() => stampOf(stat()));
      return stamp instanceof Refusal ? undefined : stamp;
    },
    isReplaced() {
      const names = attempt(() => stat().nlink);
      return names === 0n || first !== mountedFrom(readMounts(), path) || first?.endsWith(DELETED) === true;
    },
    close: () => closeSync(directory),
  };
}

/** Suffix that the kernel adds to the path of a deleted or replaced file. */
const DELETED = "//deleted";

/**
 * Returns which file of its file system is mounted at a path (proc(5), mountinfo). Undefined if the path is no mount
 * point.
 */
export function mountedFrom(mounts: string, path: string): string | undefined {
  const fields = mounts.split("\n").map((line) => line.split(" ", 5));
  return fields.findLast(([, , , , point]) => point === path)?.[3];
}

function ownMounts(): string {
  return readFileSync("/proc/self/mountinfo", "utf8");
}

function justEmptied(content: Buffer, changedMs: number): Reason | undefined {
  if (content.length > 0 || Math.abs(Date.now() - changedMs) > EMPTY_MS) return undefined;
  return { code: "file-empty", text: "the hosts file is empty: it is being written" };
}

function open(directory: string): number {
  try {
    return openDirectory(directory);
  } catch (error) {
    throw new SwitchbackError(
      "config-invalid",
      `nodeHosts: ${directory} cannot be opened as a directory, without links on the way: ${describeError(error)}`,
    );
  }
}
