import { CONFIGURATION_PATH } from "#certs/objects.ts";
import { TARGETS_NAME } from "#lib/documents/targets-format.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";

/**
 * Why a new pod would not be injected; undefined if it would. For a dry run, which changes nothing, the API server
 * calls the webhook by the chart's entry `reachable.switchback.dev`, on its own route (kube-proxy, a firewall) and with
 * its own copy of caBundle: entries for pods fail open. Without the configuration, for example during an uninstall, it
 * calls nothing. Needs the rights of the controller. `namespace`: that of Switchback. Rejects if `signal` is aborted.
 */
export async function webhookProblem(client: KubeClient, namespace: string, signal?: AbortSignal) {
  try {
    await client.get(CONFIGURATION_PATH, {}, signal && { signal });
    await client.mergePatch(corePath("configmaps", namespace, TARGETS_NAME), {}, { dryRun: true });
    return undefined;
  } catch (error) {
    signal?.throwIfAborted();
    return `the API server cannot call the webhook: ${describeError(error)}`;
  }
}
