import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import koffi from "koffi";

// Landlock (landlock(7)): an unprivileged process permanently gives up rights on files and TCP ports, for itself and
// all that it starts. Nothing is restricted if the kernel has no Landlock, or if the container runtime forbids its
// system calls.

/** Rights on files and directories, in the order of the kernel's bits (linux/landlock.h). */
const FILE_RIGHTS = [
  "execute",
  "write-file",
  "read-file",
  "read-dir",
  "remove-dir",
  "remove-file",
  "make-char",
  "make-dir",
  "make-reg",
  "make-sock",
  "make-fifo",
  "make-block",
  "make-sym",
  "refer",
  "truncate",
  "ioctl-dev",
] as const;
export type FileRight = (typeof FILE_RIGHTS)[number];

/** Number of rights that each version of the interface knows, starting with version 1. */
const KNOWN_RIGHTS = [13, 14, 15, 15, 16] as const;
/** The rights that apply to a file; the others apply to directories only. */
const ON_FILES: ReadonlySet<FileRight> = new Set(["execute", "write-file", "read-file", "truncate", "ioctl-dev"]);

/** Rights that stay. Landlock forbids everything else that it can forbid. */
export interface Allowed {
  /** Rights for each file, or for everything below each directory. A path that does not exist is skipped. */
  readonly files: ReadonlyArray<{ readonly path: string; readonly rights: readonly FileRight[] }>;
  readonly bindPorts: readonly number[];
  readonly connectPorts: readonly number[];
}

const [CREATE_RULESET, ADD_RULE, RESTRICT_SELF] = [444, 445, 446];
const PR_SET_NO_NEW_PRIVS = 38;
const VERSION = 1;
const [PATH_BENEATH, NET_PORT] = [1, 2];
const [BIND_TCP, CONNECT_TCP] = [1n, 2n];
/** From version 6: no signals to outside processes, and no connections to their abstract sockets. */
const SCOPES = 3n;
const O_PATH = 0o10000000;

/**
 * Restricts the calling thread and all that it starts. Threads that already run are not restricted, so the caller
 * must replace the program next (execve). Returns the version of Landlock. Throws if not everything could be
 * restricted.
 */
export function restrictThread({ files, bindPorts, connectPorts }: Allowed): number {
  const call = systemCalls();
  const version = call("landlock_create_ruleset", CREATE_RULESET, null, 0, VERSION);
  const known = KNOWN_RIGHTS[Math.min(version, KNOWN_RIGHTS.length) - 1] ?? 0;
  const handled = (1n << BigInt(known)) - 1n;
  const attributes = [handled, ...(version >= 4 ? [BIND_TCP | CONNECT_TCP] : []), ...(version >= 6 ? [SCOPES] : [])];
  const ruleset = call("landlock_create_ruleset", CREATE_RULESET, words(attributes), attributes.length * 8, 0);
  const addRule = (type: number, rule: Buffer): void => {
    call("landlock_add_rule", ADD_RULE, ruleset, type, rule, 0);
  };
  for (const { path, rights } of files) {
    withPath(path, (descriptor, isDirectory) => {
      const applicable = rights.filter((right) => isDirectory || ON_FILES.has(right));
      const rule = Buffer.alloc(12);
      rule.writeBigUInt64LE(bitsOf(applicable) & handled);
      rule.writeInt32LE(descriptor, 8);
      addRule(PATH_BENEATH, rule);
    });
  }
  if (version >= 4) {
    for (const port of bindPorts) addRule(NET_PORT, words([BIND_TCP, BigInt(port)]));
    for (const port of connectPorts) addRule(NET_PORT, words([CONNECT_TCP, BigInt(port)]));
  }
  call("prctl", "prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0);
  call("landlock_restrict_self", RESTRICT_SELF, ruleset, 0);
  closeSync(ruleset);
  return version;
}

type Argument = number | Buffer | null;

/**
 * Returns a function that calls libc's syscall(2) and prctl(2). The pointers of a call are not used after it returns.
 */
function systemCalls(): (name: string, number: number | "prctl", ...values: Argument[]) => number {
  const libc = koffi.load(null);
  const prctl = libc.func("int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)");
  return (name, number, ...values) => {
    const types = values.map((value) => (typeof value === "number" ? "long" : "void *"));
    const result: number =
      number === "prctl" ? prctl(...values, 0) : libc.func("syscall", "long", ["long", ...types])(number, ...values);
    if (result < 0) throw new Error(`${name}: errno ${koffi.errno()}`);
    return result;
  };
}

function words(values: readonly bigint[]): Buffer {
  const buffer = Buffer.alloc(8 * values.length);
  for (const [index, value] of values.entries()) buffer.writeBigUInt64LE(value, 8 * index);
  return buffer;
}

function bitsOf(rights: readonly FileRight[]): bigint {
  return rights.reduce((bits, right) => bits | (1n << BigInt(FILE_RIGHTS.indexOf(right))), 0n);
}

function withPath(path: string, work: (descriptor: number, isDirectory: boolean) => void): void {
  let descriptor: number;
  try {
    descriptor = openSync(path, O_PATH | constants.O_RDONLY);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  try {
    work(descriptor, fstatSync(descriptor).isDirectory());
  } finally {
    closeSync(descriptor);
  }
}

/** The files that the kernel executes when this program starts: its binary and the dynamic loader. */
export function programFiles(): readonly string[] {
  const mapped = readFileSync("/proc/self/maps", "utf8").matchAll(/ (\/\S*\/ld-[^\s/]+)$/gm);
  return [...new Set([process.execPath, ...[...mapped].map(([, path = ""]) => path)])];
}
