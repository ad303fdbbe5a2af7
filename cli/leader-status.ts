import type { FullStatus } from "#controller/status.ts";
import { FIRST_PAGE, readLeaderStatus, readStatusKey, STATUS_SECRET } from "#lib/documents/status-page.ts";
import { hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { statusFrom } from "./status-shape.ts";

/** Which workloads to read. By default at most 1,000, first those that need somebody to act. */
interface WorkloadsRead {
  /** Only workloads of this namespace. */
  readonly in?: string | undefined;
  /** Only workloads that stay stale until somebody acts. */
  readonly stuck?: boolean | undefined;
  /** All workloads, however many there are. */
  readonly all?: boolean | undefined;
}

/**
 * Reads the leading controller's status through the API server. Throws `kube-unreachable` if no leader answers, for
 * example just after one has stopped: a follower knows nothing about names. Throws `input-invalid` if the controller is
 * missing, `kube-status` 403 without permission to read the page or its key, and `status-refused` while the key is
 * missing.
 */
export async function leaderStatus(
  client: KubeClient,
  namespace: string,
  { all, in: only, stuck }: WorkloadsRead = {},
  signal?: AbortSignal,
): Promise<FullStatus> {
  const key = await readStatusKey(client, namespace, signal);
  try {
    const read = async (after?: string) => {
      const query = { in: only, stuck: stuck || undefined, after };
      const status = await readLeaderStatus(client, namespace, { key, parse: statusFrom, query, signal });
      if (!status.leader) throw new SwitchbackError("kube-unreachable", "no controller is the leader at the moment");
      return status;
    };
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
    if (page === undefined) break;
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
