import { CONFIGURATION_PATH } from "#certs/objects.ts";
import type { FullStatus } from "#controller/status.ts";
import { readLeaderStatus, readStatusKey, STATUS_SECRET } from "#lib/documents/status-page.ts";
import { hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { DEFAULT_NAMESPACE } from "./command.ts";
import { statusFrom } from "./status-shape.ts";

/** The parts of a MutatingWebhookConfiguration that say where its webhook is. */
interface RawConfiguration {
  readonly webhooks?: readonly { readonly clientConfig?: { readonly service?: { readonly namespace?: string } } }[];
}

/**
 * The namespace that Switchback is installed in: `given`, else the default one if its controller has a key there, else
 * that of the webhook which the API server calls. The default, if the caller may not read that.
 */
export async function installedIn(client: Pick<KubeClient, "get">, given: string | undefined): Promise<string> {
  if (given !== undefined) return given;
  try {
    if ((await readStatusKey(client, DEFAULT_NAMESPACE)) !== undefined) return DEFAULT_NAMESPACE;
    const { webhooks } = await client.get<RawConfiguration>(CONFIGURATION_PATH);
    return webhooks?.[0]?.clientConfig?.service?.namespace ?? DEFAULT_NAMESPACE;
  } catch (error) {
    if (statusOf(error) !== 403 && statusOf(error) !== 404) throw error;
    return DEFAULT_NAMESPACE;
  }
}

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
    if (statusOf(error) === 404) throw new SwitchbackError("input-invalid", notInstalled(namespace));
    if (key !== undefined || !hasCode(error, "status-refused")) throw error;
    throw new SwitchbackError("status-refused", noKey(namespace), { cause: error });
  }
}

function notInstalled(namespace: string): string {
  return (
    `Switchback is not installed in the namespace ${namespace}: it has no Service switchback-controller. ` +
    `Install it: helm install switchback CHART --namespace ${namespace} --create-namespace (docs/install.md)`
  );
}

function noKey(namespace: string): string {
  return `Secret ${STATUS_SECRET} in namespace ${namespace} has no key yet; the controller makes one when it starts`;
}
