import { CONFIGURATION_PATH } from "#certs/objects.ts";
import type { FullStatus } from "#controller/status.ts";
import type { RawConfiguration } from "#doctor/gather-admission.ts";
import { readLeaderStatus, readStatusKey, STATUS_SECRET } from "#lib/documents/status-page.ts";
import { hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { DEFAULT_NAMESPACE } from "./command.ts";
import { withUnwatched } from "./unwatched-pods.ts";

interface StatusQuery {
  /** The namespace that Switchback is installed in. Default: it is found. */
  readonly installedIn?: string | undefined;
  /** Only workloads of this namespace, including the pods that the controller does not watch. */
  readonly of?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface LeaderStatus {
  /** The namespace that Switchback is installed in. */
  readonly namespace: string;
  readonly full: FullStatus;
}

/**
 * Reads the leading controller's status through the API server, with the workloads of one namespace or of all: at most
 * 5,000, first those that need somebody to act. Throws `kube-unreachable` if no leader answers, for
 * example just after one has stopped: a follower knows nothing about names. Throws `input-invalid` if the controller is
 * missing, `kube-status` 403 without permission to read the page or its key, and `status-refused` while the key is
 * missing.
 */
export async function leaderStatus(client: KubeClient, query: StatusQuery = {}): Promise<LeaderStatus> {
  const { installedIn, of, signal } = query;
  const namespace = installedIn ?? (await webhookNamespace(client)) ?? DEFAULT_NAMESPACE;
  const key = await readStatusKey(client, namespace, signal);
  try {
    const full = await readLeaderStatus<FullStatus>(client, namespace, { key, query: { in: of }, signal });
    if (!full.leader) throw new SwitchbackError("kube-unreachable", "no controller is the leader at the moment");
    return { namespace, full: of === undefined ? full : await withUnwatched(client, full, of) };
  } catch (error) {
    if (statusOf(error) === 404) throw new SwitchbackError("input-invalid", notInstalled(namespace));
    if (key !== undefined || !hasCode(error, "status-refused")) throw error;
    const missing = `Secret ${STATUS_SECRET} in namespace ${namespace} has no key yet`;
    throw new SwitchbackError("status-refused", `${missing}; the controller makes one when it starts`, {
      cause: error,
    });
  }
}

/** The namespace of the webhook that the API server calls. Undefined: there is no webhook, or it may not be read. */
export async function webhookNamespace(client: KubeClient): Promise<string | undefined> {
  try {
    const { webhooks } = await client.get<RawConfiguration>(CONFIGURATION_PATH);
    return webhooks?.[0]?.clientConfig?.service?.namespace;
  } catch (error) {
    if (statusOf(error) !== 403 && statusOf(error) !== 404) throw error;
    return undefined;
  }
}

function notInstalled(namespace: string): string {
  return (
    `Switchback is not installed in the namespace ${namespace}: it has no Service switchback-controller. ` +
    `Install it: helm install switchback CHART --namespace ${namespace} --create-namespace (docs/install.md)`
  );
}
