import type { OpenFiles } from "../proxy/process.ts";

/** How the proxy stands while no connection is open. */
export interface Checkpoint {
  /** Seconds since the load began. */
  readonly at: number;
  /** Connections so far. */
  readonly connections: number;
  /** MiB. */
  readonly rss: number;
  readonly files: OpenFiles;
  readonly threads: number;
  /** What the proxy itself says is open; undefined if it did not say. */
  readonly active: number | undefined;
}

/** Pipes that a proxy may keep for later, in pipe ends. */
const MAX_PIPE_ENDS = 256;
/** What a heap may move between two moments without anything being lost. */
const RSS_SLACK_MIB = 16;
const RSS_SLACK_SHARE = 0.15;

/**
 * What is wrong with the way that files and memory went, as sentences; none if nothing is. The first checkpoint is
 * of the proxy before any load, the second after the warm-up: memory is held against the largest of the first
 * quarter, sockets against the first.
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

/** A pool is filled in time and then stays; what still grows in the second half is no pool. */
function pipeFaults(loaded: readonly Checkpoint[]): string[] {
  if (loaded.length < 6) return [];
  const half = Math.ceil(loaded.length / 2);
  const early = Math.max(...loaded.slice(0, half).map(({ files }) => files.pipes));
  const late = loaded.slice(half).map(({ files }) => files.pipes);
  const grows = late.every((pipes, index) => pipes > (late[index - 1] ?? early));
  return grows ? [`pipes grow with each checkpoint: ${late.join(", ")} ends`] : [];
}

/** Growth of memory over the checkpoints under load, bytes a connection, by least squares; NaN of fewer than two. */
export function bytesPerConnection(checkpoints: readonly Checkpoint[]): number {
  const loaded = checkpoints.slice(1);
  const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
  const x = loaded.map(({ connections }) => connections);
  const y = loaded.map(({ rss }) => rss * 1024 * 1024);
  const [mx, my] = [mean(x), mean(y)];
  const over = x.reduce((sum, value, index) => sum + (value - mx) * ((y[index] ?? 0) - my), 0);
  return over / x.reduce((sum, value) => sum + (value - mx) ** 2, 0);
}
