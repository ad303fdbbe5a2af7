import { RefusedChange } from "./file-bytes.ts";
import { hasMoreLines } from "./live-hosts-lines.ts";

/**
 * Limits of a hosts file that the agent reads. A pod's containers may write anything into it, and one thread reads
 * all files of a node. Within these limits, a file takes about 20 ms of that thread and 2 MB, without a JIT compiler.
 */
interface HostsFileLimits {
  readonly bytes: number;
  /** Several empty lines in a row count as one. */
  readonly lines: number;
}

/** Room for what others add: all hostAliases of the pod's user, and lines of its containers. */
const FOREIGN: HostsFileLimits = { bytes: 128 * 1024, lines: 4_096 };
/**
 * Room for a name of 253 bytes in four lines: it may have two addresses, and occur in the pod's spec and in the block.
 */
const PER_NAME: HostsFileLimits = { bytes: 1024, lines: 4 };

/** `maxNames`: maximum number of names that a pod gets (`inject.maxNames`, with the same default). */
export function hostsFileLimits(maxNames = 500): HostsFileLimits {
  return {
    bytes: FOREIGN.bytes + maxNames * PER_NAME.bytes,
    lines: FOREIGN.lines + maxNames * PER_NAME.lines,
  };
}

/** Throws RefusedChange if a file has more lines. `updateFile` checks its bytes before it reads the file. */
export function checkLines(text: string, { lines }: HostsFileLimits): void {
  if (!hasMoreLines(text, lines)) return;
  throw new RefusedChange({ code: "file-too-large", text: `the hosts file has more than ${lines} lines` });
}
