import type { ObjectChange } from "#lib/kube/cache.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type Informer, type WatchOptions, type WatchTimings, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";

/** A watch under test, with all its reports. */
export interface Watching {
  watcher: Informer<string>;
  /** `+name@version`, `~name@old>new`, `-name@version`, in the order in which they were reported. */
  changes: string[];
  synced: number;
  /** Numbers of lists, of watches, and of those that failed. */
  calls: { lists: number; watches: number; failed: number };
  logs: { level: string; message: string; fields: Record<string, unknown> }[];
}

/** Much shorter than the real ones. Still long enough for a busy machine, if a test needs something not to happen. */
const FAST: Partial<WatchTimings> = {
  backoffMs: 10,
  backoffCapMs: 40,
  shortMs: 50,
};

/** Starts a watch whose projection is name and version. */
export function watching(
  client: Pick<KubeClient, "get" | "stream">,
  options: Partial<WatchOptions<string>> = {},
): Watching {
  const logs: Watching["logs"] = [];
  const note = (level: string) => (fields: object, message: string) =>
    void logs.push({ level, message, fields: fields as Record<string, unknown> });
  const log: Logger = { debug: note("debug"), info: note("info"), warn: note("warn"), error: note("error") };
  const changes: string[] = [];
  const state: { synced: number } = { synced: 0 };
  const calls = { lists: 0, watches: 0, failed: 0 };
  const failed = (error: unknown): never => {
    calls.failed++;
    throw error;
  };
  const watcher = watchObjects<string>({
    client: {
      get(path, query, read) {
        if (query?.continue === undefined) calls.lists++;
        return client.get<never>(path, query, read).catch(failed);
      },
      stream(path, query, read) {
        calls.watches++;
        return client.stream(path, query, read).catch(failed);
      },
    },
    path: "/apis/networking.k8s.io/v1/ingresses",
    project: ({ metadata }) => `${metadata?.name}@${metadata?.resourceVersion}`,
    onChange: (change) => void changes.push(show(change)),
    onSynced: () => void state.synced++,
    log,
    random: () => 1,
    ...options,
    timings: { ...FAST, ...options.timings },
  });
  return {
    watcher,
    changes,
    calls,
    logs,
    get synced() {
      return state.synced;
    },
  };
}

function show({ before, after }: ObjectChange<string>): string {
  if (before !== undefined && after !== undefined) return `~${before}>${after.split("@")[1]}`;
  return before === undefined ? `+${after}` : `-${before}`;
}
