import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";

/** The ConfigMap with the configuration of an install, in its namespace and in that of the agents. */
export const CONFIG_NAME = "switchback-config";
/**
 * The single Deployment of the chart's profile `small`. It replaces those of the controller, the webhook and the
 * proxy.
 */
export const SMALL_DEPLOYMENT = "switchback-all";

/**
 * Returns the text of the installed configuration, or "" if the ConfigMap has none. Rejects if the API server refuses,
 * with status 404 if nothing is installed.
 */
export async function readConfigText(client: Pick<KubeClient, "get">, namespace: string): Promise<string> {
  const path = corePath("configmaps", namespace, CONFIG_NAME);
  const { metadata, data } = await client.get<{
    readonly metadata?: ObjectMeta;
    readonly data?: Readonly<Record<string, string>>;
  }>(path);
  // Without an installation's configuration, it would look as if no pod had its addresses.
  if (metadata?.name !== CONFIG_NAME)
    throw new SwitchbackError("data-corrupt", `GET ${path}: the response is not the ConfigMap ${CONFIG_NAME}`);
  return data?.["config.yaml"] ?? "";
}
