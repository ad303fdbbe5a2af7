import type { FullStatus } from "#controller/status.ts";
import { readLeaderStatus, readStatusKey, STATUS_SECRET } from "#lib/documents/status-page.ts";
import { hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { statusFrom } from "./status-shape.ts";

/**
 * Reads the leading controller's status through the API server, with the workloads of one namespace or of all: at most
 * 5,000, first those that need somebody to act. Throws `kube-unreachable` if no leader answers, for
 * example just after one has stopped: a follower knows nothing about names. Throws `input-invalid` if the controller is
 * missing, `kube-status` 403 without permission to read the page or its key, and `status-refused` while the key is
 * missing.
 */
export async function leaderStatus(
  client: KubeClient,
  namespace: string,
  query: { readonly in?: string | undefined } = {},
  signal?: AbortSignal,
): Promise<FullStatus> {
  const key = await readStatusKey(client, namespace, signal);
  try {
    const status = await readLeaderStatus(client, namespace, { key, parse: statusFrom, query, signal });
    if (!status.leader) throw new SwitchbackError("kube-unreachable", "no controller is the leader at the moment");
    return status;
  } catch (error) {
    if (statusOf(error) === 404) throw new SwitchbackError("input-invalid", noController(namespace));
    if (key !== undefined || !hasCode(error, "status-refused")) throw error;
    throw new SwitchbackError("status-refused", noKey(namespace), { cause: error });
  }
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
