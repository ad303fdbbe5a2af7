import type { KubeClient } from "#lib/kube/client.ts";
import { readConfigMap } from "./config-map.ts";

/** The ConfigMap with the configuration of an install, in its namespace and in that of the agents. */
export const CONFIG_NAME = "switchback-config";
/** The key of the configuration in it. */
export const CONFIG_KEY = "config.yaml";

/**
 * Returns the text of the installed configuration, or "" if the ConfigMap has none. Rejects if the API server refuses,
 * with status 404 if nothing is installed.
 */
export async function readConfigText(client: Pick<KubeClient, "get">, namespace: string): Promise<string> {
  return (await readConfigMap(client, namespace, CONFIG_NAME)).data?.[CONFIG_KEY] ?? "";
}
