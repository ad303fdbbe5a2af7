import { SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";

// Reads the chart's ConfigMap with the configuration of an install. Its name contains a hash of its content. ConfigMaps
// of earlier revisions still exist, so the controller's Deployment says which one counts.

/** A ConfigMap as the API server returns it. */
interface ConfigMap {
  readonly metadata?: ObjectMeta;
  readonly data?: Readonly<Record<string, string>>;
}

interface RawDeployment {
  readonly spec?: {
    readonly template?: {
      readonly spec?: {
        readonly volumes?: ReadonlyArray<{ readonly name?: string; readonly configMap?: { readonly name?: string } }>;
      };
    };
  };
}

/** The Deployment whose pod template names the ConfigMap. */
export const CONTROLLER_DEPLOYMENT = "switchback-controller";
/**
 * The single Deployment of the chart's profile `small`. It replaces those of the controller, the webhook and the
 * proxy.
 */
export const SMALL_DEPLOYMENT = "switchback-all";
/** Selects the ConfigMaps with a configuration. */
const CONFIG_LABELS = "app.kubernetes.io/name=switchback,app.kubernetes.io/component=config";

/**
 * Returns the name of the ConfigMap that the controller's pods mount. If its Deployment is gone or mounts none,
 * returns the newest ConfigMap with the label of a configuration, or undefined if there is none. Rejects if the API
 * server refuses.
 */
export async function readConfigName(
  client: Pick<KubeClient, "get" | "list">,
  namespace: string,
): Promise<string | undefined> {
  const { spec } =
    (await readDeployment(client, namespace, CONTROLLER_DEPLOYMENT)) ??
    (await readDeployment(client, namespace, SMALL_DEPLOYMENT)) ??
    {};
  const mounted = spec?.template?.spec?.volumes?.find(({ name }) => name === "config")?.configMap?.name;
  if (mounted !== undefined) return mounted;
  const { items } = await client.list<ConfigMap>(corePath("configmaps", namespace), { labelSelector: CONFIG_LABELS });
  const [newest] = items
    .map(({ metadata }) => ({ name: metadata?.name, created: Date.parse(metadata?.creationTimestamp ?? "") }))
    .toSorted((a, b) => b.created - a.created);
  return newest?.name;
}

async function readDeployment(
  client: Pick<KubeClient, "get">,
  namespace: string,
  name: string,
): Promise<RawDeployment | undefined> {
  try {
    const deployments = { group: "apps", version: "v1", namespace, resource: "deployments" };
    return await client.get<RawDeployment>(resourcePath({ ...deployments, name }));
  } catch (error) {
    if (statusOf(error) === 404) return undefined;
    throw error;
  }
}

/**
 * Returns the text of the configuration in the ConfigMap with that name, or "" if it has none. Rejects if the API
 * server refuses.
 */
export async function readConfigText(
  client: Pick<KubeClient, "get">,
  namespace: string,
  name: string,
): Promise<string> {
  const path = corePath("configmaps", namespace, name);
  const { metadata, data } = await client.get<ConfigMap>(path);
  // Without an installation's configuration, it would look as if no pod had its addresses.
  if (metadata?.name !== name)
    throw new SwitchbackError("data-corrupt", `GET ${path}: the response is not the ConfigMap ${name}`);
  return data?.["config.yaml"] ?? "";
}
