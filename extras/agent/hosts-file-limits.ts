import { RefusedChange } from "./file-bytes.ts";
import { hasMoreLines } from "./live-hosts-lines.ts";

/**
 * The largest hosts file that the agent reads. Its containers may write anything into it, and the files of a node
 * are read one after the other by one thread: within these limits a file takes about 20 ms of it and 2 MB, without
 * a JIT compiler.
 */
interface HostsFileLimits {
  readonly bytes: number;
  /** Several empty lines in a row count as one. */
  readonly lines: number;
}

/** What others may add: all hostAliases of a pod's user, lines of its containers. */
const FOREIGN: HostsFileLimits = { bytes: 128 * 1024, lines: 4_096 };
/** A name of 253 bytes, and a line for each: at two addresses, once in the pod's spec and once in the block. */
const PER_NAME: HostsFileLimits = { bytes: 1024, lines: 4 };

/** `maxNames`: the most names that a pod gets (`inject.maxNames`, whose default is also the default here). */
export function hostsFileLimits(maxNames = 500): HostsFileLimits {
  return {
    bytes: FOREIGN.bytes + maxNames * PER_NAME.bytes,
    lines: FOREIGN.lines + maxNames * PER_NAME.lines,
  };
}

/** Throws RefusedChange if a file has more lines than that. Its bytes are checked before it is read. */
export function checkLines(text: string, { lines }: HostsFileLimits): void {
  if (!hasMoreLines(text, lines)) return;
  throw new RefusedChange({ code: "file-too-large", text: `the hosts file has more than ${lines} lines` });
}
