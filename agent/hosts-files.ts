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
import { describeError } from "../errors/errors.ts";
import { isKubeletHosts, KUBELET_HEADER_LENGTH } from "../hostmap/live-hosts.ts";
import type { Reason } from "../hostmap/types.ts";
import { createScratchBuffer, type FileChange, RefusedChange } from "./file-bytes.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";
import { rewrite, type WritableFile } from "./rewrite-file.ts";

/** How often a file is read again when another process writes it at the same time. */
const MAX_TRIES = 3;

/** The pod's uid becomes a directory name, so only a well-formed uid is accepted. */
const UID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The result of an update of one pod's hosts file. `stamp` changes whenever the file does. */
export type HostsFileUpdate =
  | { readonly kind: "current" | "written"; readonly stamp: string }
  /** There is no file (yet): no container has started, or each mounts its own file there. */
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly reason: Reason };

export interface HostsFiles {
  /** Applies `change` to a pod's file. Never throws. */
  update(uid: string, change: FileChange): HostsFileUpdate;
  /** The current stamp of a pod's file; undefined if there is none. */
  stamp(uid: string): string | undefined;
  close(): void;
}

/**
 * Opens the hosts files below the kubelet's `pods` directory. Every directory on the path is opened through the descriptor of its
 * parent, and symbolic links are never followed. `owner` is the uid that files must have. Files over
 * the limits are refused. Throws the errno error if the directory does not exist.
 */
export function openHostsFiles(podsDirectory: string, owner = 0, { bytes: maxBytes } = hostsFileLimits()): HostsFiles {
  const root = openDirectory(podsDirectory);
  const within = <T>(uid: string, work: (directory: number) => T): T | Refusal => {
    if (!UID.test(uid)) return refusal("uid-malformed", "the pod's uid is malformed");
    return attempt(() => {
      const directory = openSync(`${handle(root)}/${uid}`, DIRECTORY);
      try {
        return work(directory);
      } finally {
        closeSync(directory);
      }
    });
  };
  return {
    update(uid, change) {
      const outcome = within(uid, (directory) => updateIn(directory, { owner, maxBytes }, change));
      return outcome instanceof Refusal ? outcome.outcome : outcome;
    },
    stamp(uid) {
      const stamp = within(uid, (directory) => stampOf(lstatSync(`${handle(directory)}/etc-hosts`, { bigint: true })));
      return stamp instanceof Refusal ? undefined : stamp;
    },
    close: () => closeSync(root),
  };
}

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** O_NONBLOCK: the file may have been replaced by one whose open blocks. */
const FILE = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** The kernel's path of an open descriptor. Followed by a name, it opens what openat(2) would open. */
function handle(descriptor: number): string {
  return `/proc/self/fd/${descriptor}`;
}

function openDirectory(path: string): number {
  let directory = openSync("/", DIRECTORY);
  for (const part of path.split("/").filter((name) => name !== "")) {
    const parent = directory;
    try {
      directory = openSync(`${handle(parent)}/${part}`, DIRECTORY);
    } finally {
      closeSync(parent);
    }
  }
  return directory;
}

class Refusal {
  readonly outcome: HostsFileUpdate;
  constructor(outcome: HostsFileUpdate) {
    this.outcome = outcome;
  }
}

function refusal(code: string, text: string): Refusal {
  return new Refusal({ kind: "refused", reason: { code, text } });
}

/** Runs `work` and maps errno errors to outcomes. */
function attempt<T>(work: () => T): T | Refusal {
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

/** What a file must have to be touched. */
interface Expected {
  readonly owner: number;
  readonly maxBytes: number;
}

function updateIn(directory: number, expected: Expected, change: FileChange): HostsFileUpdate {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const outcome = tryUpdate(`${handle(directory)}/etc-hosts`, expected, change);
    if (outcome !== undefined) return outcome;
  }
  return { kind: "refused", reason: { code: "file-busy", text: "the hosts file changes faster than it can be read" } };
}

/** Undefined if another process wrote to the file in between. */
function tryUpdate(path: string, expected: Expected, change: FileChange): HostsFileUpdate | undefined {
  // Checked before it is opened, because opening a device can have side effects.
  const problem = metadataProblem(lstatSync(path, { bigint: true }), expected);
  if (problem !== undefined) return { kind: "refused", reason: problem };
  const descriptor = openSync(path, FILE);
  try {
    const stat = fstatSync(descriptor, { bigint: true });
    const openProblem = metadataProblem(stat, expected);
    if (openProblem !== undefined) return { kind: "refused", reason: openProblem };
    const before = readAll(descriptor, Number(stat.size));
    if (!isKubeletHosts(before.toString("latin1", 0, KUBELET_HEADER_LENGTH)))
      return { kind: "refused", reason: notKubelets(before) };
    const after = change(before);
    if (after.equals(before)) return { kind: "current", stamp: stampOf(stat) };
    // It could not be read again, and the block would stay for good.
    if (after.length > expected.maxBytes) return { kind: "refused", reason: tooLarge(after.length, expected.maxBytes) };
    if (stampOf(fstatSync(descriptor, { bigint: true })) !== stampOf(stat)) return undefined;
    withFile(descriptor, (file) => rewrite(file, before, after));
    const written = fstatSync(descriptor, { bigint: true });
    return Number(written.size) === after.length ? { kind: "written", stamp: stampOf(written) } : undefined;
  } finally {
    closeSync(descriptor);
  }
}

/** Why a file cannot be the kubelet's, according to its metadata. */
function metadataProblem(stat: BigIntStats, { owner, maxBytes }: Expected): Reason | undefined {
  if (stat.isSymbolicLink()) return { code: "path-not-plain", text: "the hosts file is a symbolic link" };
  if (!stat.isFile()) return { code: "not-kubelets", text: "the hosts file is not a regular file" };
  if (stat.uid !== BigInt(owner))
    return { code: "not-kubelets", text: `the hosts file belongs to the user ${stat.uid}` };
  if (stat.nlink !== 1n) return { code: "not-kubelets", text: `the hosts file has ${stat.nlink} names` };
  if (stat.size > BigInt(maxBytes)) return tooLarge(stat.size, maxBytes);
  return undefined;
}

function tooLarge(bytes: number | bigint, maxBytes: number): Reason {
  return { code: "file-too-large", text: `the hosts file has or would have ${bytes} bytes, over ${maxBytes}` };
}

function notKubelets(content: Buffer): Reason {
  if (content.length === 0) return { code: "file-empty", text: "the hosts file is empty: it is being written" };
  return {
    code: "not-kubelets",
    text: "the hosts file does not start with the kubelet's header: something in the pod has replaced its content",
  };
}

function stampOf(stat: BigIntStats): string {
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
