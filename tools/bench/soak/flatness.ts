import type { OpenFiles } from "../proxy/process.ts";

/** State of the proxy while no connection is open. */
export interface Checkpoint {
  /** Seconds since the load began. */
  readonly at: number;
  /** Number of connections so far. */
  readonly connections: number;
  /** Resident memory, MiB. */
  readonly rss: number;
  readonly files: OpenFiles;
  readonly threads: number;
  /** Number of open connections that the proxy reports; undefined if it does not report a number. */
  readonly active: number | undefined;
}

/** Maximum size of the proxy's pool of pipes, in pipe ends. */
const MAX_PIPE_ENDS = 256;
/** Normal variation of a heap between two checkpoints. */
const RSS_SLACK_MIB = 16;
const RSS_SLACK_SHARE = 0.15;

/**
 * Faults in the development of files and memory, as sentences; empty if there are none. The first checkpoint is
 * before any load, the second one after the warm-up. Memory is compared with the maximum of the first quarter, and
 * sockets with the first checkpoint.
 */
export function flatnessFaults(checkpoints: readonly Checkpoint[]): string[] {
  const [fresh, ...loaded] = checkpoints;
  if (fresh === undefined || loaded.length < 2) return ["too short: no two checkpoints under load to compare"];
  const faults: string[] = [];
  for (const { at, files, active } of loaded) {
    const when = `${Math.round(at)} s, no load:`;
    const extra = files.sockets - fresh.files.sockets;
    if (extra !== 0) faults.push(`${when} ${files.sockets} sockets are open, ${fresh.files.sockets} before any load`);
    const others = files.others - fresh.files.others;
    if (others > 0) faults.push(`${when} ${others} more files of other kinds are open than before any load`);
    if (files.pipes > fresh.files.pipes + MAX_PIPE_ENDS) faults.push(`${when} ${files.pipes} pipe ends are open`);
    if (active !== 0)
      faults.push(`${when} the proxy says that ${active ?? "an unknown number of"} connections are open`);
  }
  return [...faults, ...memoryFaults(loaded), ...pipeFaults(loaded)];
}

function memoryFaults(loaded: readonly Checkpoint[]): string[] {
  const warm = Math.max(...loaded.slice(0, Math.max(1, Math.floor(loaded.length / 4))).map(({ rss }) => rss));
  const end = loaded.at(-1)?.rss ?? Number.NaN;
  const most = warm + Math.max(RSS_SLACK_MIB, warm * RSS_SLACK_SHARE);
  return end <= most ? [] : [`memory is not flat: ${end.toFixed(0)} MiB at the end, ${warm.toFixed(0)} MiB when warm`];
}

/** A pool fills up and then keeps its size. Growth in the second half is a fault. */
function pipeFaults(loaded: readonly Checkpoint[]): string[] {
  if (loaded.length < 6) return [];
  const half = Math.ceil(loaded.length / 2);
  const early = Math.max(...loaded.slice(0, half).map(({ files }) => files.pipes));
  const late = loaded.slice(half).map(({ files }) => files.pipes);
  const grows = late.every((pipes, index) => pipes > (late[index - 1] ?? early));
  return grows ? [`pipes grow with each checkpoint: ${late.join(", ")} ends`] : [];
}

/**
 * Growth of memory over the checkpoints under load, in bytes per connection, by least squares. NaN with fewer than
 * two checkpoints.
 */
export function bytesPerConnection(checkpoints: readonly Checkpoint[]): number {
  const loaded = checkpoints.slice(1);
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = loaded.map(({ connections }) => connections);
  const y = loaded.map(({ rss }) => rss * 1024 * 1024);
  const [mx, my] = [mean(x), mean(y)];
  const over = x.reduce((sum, value, index) => sum + (value - mx) * ((y[index] ?? 0) - my), 0);
  return over / x.reduce((sum, value) => sum + (value - mx) ** 2, 0);
}
