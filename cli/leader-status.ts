import type { FullStatus } from "#controller/status.ts";
import { FIRST_PAGE, readLeaderStatus, readStatusKey, STATUS_SECRET } from "#lib/documents/status-page.ts";
import { hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { pause } from "#lib/kube/time.ts";
import { statusFrom } from "./status-shape.ts";

/** Which workloads to read. By default at most 1,000, first those that need somebody to act. */
interface WorkloadsRead {
  /** Only workloads of this namespace. */
  readonly in?: string | undefined;
  /** Only workloads that stay stale until somebody acts. */
  readonly stuck?: boolean | undefined;
  /** All workloads, however many there are. */
  readonly all?: boolean | undefined;
  /** How long to wait while the controller lists pods, in milliseconds. It may start to list them only on request. */
  readonly observedWithinMs?: number | undefined;
}

/** Enough to list 150,000 pods. */
const OBSERVED_WITHIN_MS = 30_000;
const POLL_MS = 250;
/** Values of `unknownCode` while the controller lists pods. */
const LISTING: readonly (string | undefined)[] = ["namespaces-not-listed", "pods-not-listed"];

/**
 * Reads the leading controller's status through the API server. Waits a while for pods that the controller observes
 * only on request. If they stay unknown, the status says so. If no leader answers, for example just after one has
 * stopped, returns a follower's status, which has names and no workloads. Throws `input-invalid` if the controller is
 * missing, `kube-status` 403 without permission to read the page or its key, and `status-refused` while the key is
 * missing.
 */
export async function leaderStatus(
  client: KubeClient,
  namespace: string,
  wanted: WorkloadsRead = {},
  signal?: AbortSignal,
): Promise<FullStatus> {
  const { observedWithinMs = OBSERVED_WITHIN_MS } = wanted;
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const status = await readStatus(client, namespace, wanted, signal);
    const isListing = LISTING.includes(status.running?.unknownCode);
    if (!isListing || waitedMs >= observedWithinMs || signal?.aborted) return status;
    await pause(POLL_MS, signal);
  }
}

async function readStatus(
  client: KubeClient,
  namespace: string,
  { all, in: only, stuck }: WorkloadsRead,
  signal: AbortSignal | undefined,
): Promise<FullStatus> {
  const key = await readStatusKey(client, namespace, signal);
  try {
    const read = (after?: string) =>
      readLeaderStatus(client, namespace, {
        key,
        parse: statusFrom,
        query: { in: only, stuck: stuck || undefined, after },
        signal,
      });
    return await withAllPages(await read(all ? FIRST_PAGE : undefined), read);
  } catch (error) {
    if (statusOf(error) === 404) throw new SwitchbackError("input-invalid", noController(namespace));
    if (key !== undefined || !hasCode(error, "status-refused")) throw error;
    throw new SwitchbackError("status-refused", noKey(namespace), { cause: error });
  }
}

/** Adds the workloads of the following pages. */
async function withAllPages(first: FullStatus, read: (after: string) => Promise<FullStatus>): Promise<FullStatus> {
  const { running } = first;
  if (running?.next === undefined) return first;
  const workloads = [...running.workloads];
  for (let next: string | undefined = running.next; next !== undefined; ) {
    const page: FullStatus["running"] = (await read(next)).running;
    if (page === undefined) {
      throw new SwitchbackError("kube-unreachable", "another controller became the leader while its status was read");
    }
    workloads.push(...page.workloads);
    // Pages are in the order of keys. A page whose `next` does not advance is the last one.
    next = page.next !== undefined && page.next > next ? page.next : undefined;
  }
  return { ...first, running: { ...running, workloads, omitted: 0, next: undefined } };
}

function noController(namespace: string): string {
  return (
    `Service switchback-controller not found in namespace ${namespace}; is Switchback installed there? ` +
    "(--namespace)"
  );
}

function noKey(namespace: string): string {
  return `Secret ${STATUS_SECRET} in namespace ${namespace} has no key yet; the controller makes one when it starts`;
}
