import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readSync,
  writeSync,
} from "node:fs";
import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import { createScratchBuffer, type FileChange, RefusedChange } from "./file-bytes.ts";
import { rewrite, type WritableFile } from "./rewrite-file.ts";

// Changes one hosts file in place: a pod's, or the node's.

/** Maximum number of times that a file is read while another process writes it. */
const MAX_TRIES = 3;

/** The result of an update of one hosts file. `stamp` changes whenever the file does. */
export type HostsFileUpdate =
  | { readonly kind: "current" | "written"; readonly stamp: string }
  /** There is no file (yet): no container has started, or each mounts its own file there. */
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly reason: Reason };

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** O_NONBLOCK: the file may have been replaced by one whose open blocks. */
const FILE = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** The kernel's path of an open descriptor. Followed by a name, it opens what openat(2) would open. */
export function handle(descriptor: number): string {
  return `/proc/self/fd/${descriptor}`;
}

/** Opens an entry of an open directory as a directory; a symbolic link is not followed. */
export function openWithin(parent: number, name: string): number {
  return openSync(`${handle(parent)}/${name}`, DIRECTORY);
}

/**
 * Opens a directory, each part of its path through the descriptor of its parent, so that no symbolic link is followed.
 */
export function openDirectory(path: string): number {
  let directory = openSync("/", DIRECTORY);
  for (const part of path.split("/").filter((name) => name !== "")) {
    const parent = directory;
    try {
      directory = openWithin(parent, part);
    } finally {
      closeSync(parent);
    }
  }
  return directory;
}

export class Refusal {
  readonly outcome: HostsFileUpdate;
  constructor(outcome: HostsFileUpdate) {
    this.outcome = outcome;
  }
}

export function refusal(code: string, text: string): Refusal {
  return new Refusal({ kind: "refused", reason: { code, text } });
}

/** Runs `work` and maps errno errors to outcomes. */
export function attempt<T>(work: () => T): T | Refusal {
  try {
    return work();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof RefusedChange) return new Refusal({ kind: "refused", reason: error.reason });
    if (code === "ENOENT") return new Refusal({ kind: "absent" });
    if (code === "ELOOP" || code === "ENOTDIR")
      return refusal("path-not-plain", "a part of the path to the hosts file is a symbolic link or not a directory");
    return refusal("write-failed", `the hosts file cannot be written: ${describeError(error)}`);
  }
}

/** Conditions that a file must meet before it is changed. */
export interface ExpectedFile {
  readonly owner: number;
  readonly maxBytes: number;
  /** Reason code for a file of another type or owner. */
  readonly strange: { readonly code: string };
  /** Returns why this content must not be changed; undefined: it may be. */
  readonly refuses: (content: Buffer, changedMs: number) => Reason | undefined;
}

/**
 * Applies `change` to the file at `path`, below an open directory. Throws errno errors, and RefusedChange of `change`.
 */
export function updateFile(path: string, expected: ExpectedFile, change: FileChange): HostsFileUpdate {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const outcome = tryUpdate(path, expected, change);
    if (outcome !== undefined) return outcome;
  }
  return { kind: "refused", reason: { code: "file-busy", text: "the hosts file changes faster than it can be read" } };
}

/** Undefined if another process wrote to the file in between. */
function tryUpdate(path: string, expected: ExpectedFile, change: FileChange): HostsFileUpdate | undefined {
  // Checked before it is opened, because opening a device can have side effects.
  const problem = metadataProblem(lstatSync(path, { bigint: true }), expected);
  if (problem !== undefined) return { kind: "refused", reason: problem };
  const descriptor = openSync(path, FILE);
  try {
    const stat = fstatSync(descriptor, { bigint: true });
    const openProblem = metadataProblem(stat, expected);
    if (openProblem !== undefined) return { kind: "refused", reason: openProblem };
    const before = readAll(descriptor, Number(stat.size));
    const refused = expected.refuses(before, Number(stat.mtimeMs));
    if (refused !== undefined) return { kind: "refused", reason: refused };
    const after = change(before);
    if (after.equals(before)) return { kind: "current", stamp: stampOf(stat) };
    // The agent could not read such a file again, and the block would stay forever.
    if (after.length > expected.maxBytes) return { kind: "refused", reason: tooLarge(after.length, expected.maxBytes) };
    if (stampOf(fstatSync(descriptor, { bigint: true })) !== stampOf(stat)) return undefined;
    withFile(descriptor, (file) => rewrite(file, before, after));
    const written = fstatSync(descriptor, { bigint: true });
    return Number(written.size) === after.length ? { kind: "written", stamp: stampOf(written) } : undefined;
  } finally {
    closeSync(descriptor);
  }
}

/** Returns why a file's metadata is not as expected. */
function metadataProblem(stat: BigIntStats, { owner, maxBytes, strange: { code } }: ExpectedFile): Reason | undefined {
  if (stat.isSymbolicLink()) return { code: "path-not-plain", text: "the hosts file is a symbolic link" };
  if (!stat.isFile()) return { code, text: "the hosts file is not a regular file" };
  if (stat.uid !== BigInt(owner)) return { code, text: `the hosts file belongs to the user ${stat.uid}` };
  if (stat.nlink !== 1n) return { code, text: `the hosts file has ${stat.nlink} names` };
  if (stat.size > BigInt(maxBytes)) return tooLarge(stat.size, maxBytes);
  return undefined;
}

function tooLarge(bytes: number | bigint, maxBytes: number): Reason {
  return { code: "file-too-large", text: `the hosts file has or would have ${bytes} bytes, over ${maxBytes}` };
}

export function stampOf(stat: BigIntStats): string {
  return `${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}`;
}

/** Its contents are valid until the next file is read. */
const scratch = createScratchBuffer();

function readAll(descriptor: number, size: number): Buffer {
  // One byte more than expected, so that a file that has grown is detected by its length.
  const buffer = scratch(size + 1);
  let length = 0;
  // Linux returns less of a regular file than requested only at its end or after a signal.
  do {
    const count = readSync(descriptor, buffer, length, buffer.length - length, length);
    if (count === 0) break;
    length += count;
  } while (length < size);
  return buffer.subarray(0, length);
}

function withFile(descriptor: number, work: (file: WritableFile) => void): void {
  let appendDescriptor: number | undefined;
  try {
    work({
      append(bytes) {
        appendDescriptor ??= openSync(handle(descriptor), constants.O_WRONLY | constants.O_APPEND);
        return writeSync(appendDescriptor, bytes);
      },
      write: (bytes, position) => writeSync(descriptor, bytes, 0, bytes.length, position),
      truncate: (size) => ftruncateSync(descriptor, size),
      size: () => fstatSync(descriptor).size,
    });
  } finally {
    if (appendDescriptor !== undefined) closeSync(appendDescriptor);
  }
}
