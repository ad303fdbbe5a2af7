import { existsSync } from "node:fs";
import { join } from "node:path";
import { SwitchbackError } from "../errors/errors.ts";
import { createClient, type KubeClient } from "./client.ts";
import { type Credentials, cachedCredentials } from "./credentials.ts";
import { type InCluster, inClusterNamespace, loadInCluster, TOKEN_FILE } from "./incluster.ts";
import { loadKubeconfig } from "./kubeconfig.ts";
import { steadyNow } from "./time.ts";
import { createTransport } from "./transport.ts";

interface ConnectOptions {
  /** Path of a kubeconfig, or several separated as in KUBECONFIG. Wins over `inCluster`. */
  kubeconfig?: string;
  /** Context of the kubeconfig; default: its current one. */
  context?: string;
  inCluster?: InCluster;
  userAgent?: string;
  /** Deadline of a call that names none, milliseconds. */
  timeoutMs?: number;
  /** Milliseconds, never going back. */
  now?: () => number;
}

/** A client that also knows where it leads. */
export interface ConnectedClient extends KubeClient {
  /** URL of the API server. */
  readonly server: string;
  /** The pod's own namespace, or that of the kubeconfig's context. */
  readonly namespace: string;
}

/** Opens no connection yet: only files are read. Throws `config-invalid` if they cannot be. */
export async function connect(options: ConnectOptions): Promise<ConnectedClient> {
  const { credentials, namespace } = await credentialsFor(options);
  const { server } = await credentials.current();
  const transport = createTransport(credentials, options.userAgent ?? "switchback");
  const client = createClient(transport, options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs });
  return { ...client, server: server.href, namespace };
}

/**
 * How to connect, told from the environment that the caller has read. In this order: the kubeconfig of a flag, KUBECONFIG,
 * the pod's service account, `~/.kube/config`.
 */
export function connectOptionsFrom(
  env: Readonly<Record<string, string | undefined>>,
  flags: { kubeconfig?: string; context?: string } = {},
): ConnectOptions {
  const context = flags.context === undefined ? {} : { context: flags.context };
  const named = flags.kubeconfig || env.KUBECONFIG;
  if (named) return { kubeconfig: named, ...context };
  const host = env.KUBERNETES_SERVICE_HOST;
  if (host && isInPod(env)) return { inCluster: { host, port: env.KUBERNETES_SERVICE_PORT ?? "443" } };
  const home = env.HOME && join(env.HOME, ".kube", "config");
  if (home && existsSync(home)) return { kubeconfig: home, ...context };
  throw new SwitchbackError(
    "config-invalid",
    "no way to a cluster: not in a pod, no --kubeconfig, no KUBECONFIG, no ~/.kube/config",
  );
}

/** Whether this is a pod that was given a ServiceAccount's token. */
export function isInPod(env: Readonly<Record<string, string | undefined>>): boolean {
  return Boolean(env.KUBERNETES_SERVICE_HOST) && existsSync(TOKEN_FILE);
}

async function credentialsFor(options: ConnectOptions): Promise<{ credentials: Credentials; namespace: string }> {
  const now = options.now ?? steadyNow;
  const { kubeconfig, context, inCluster } = options;
  if (kubeconfig !== undefined) {
    let loaded = await loadKubeconfig(kubeconfig, context);
    const credentials = cachedCredentials(async (rejected) => {
      // Read anew after a 401: the file may have changed, and an exec plugin's cached token is dropped with the old one.
      if (rejected) loaded = await loadKubeconfig(kubeconfig, context);
      return loaded.access();
    }, now);
    return { credentials, namespace: loaded.namespace };
  }
  if (inCluster !== undefined) {
    const credentials = cachedCredentials(() => loadInCluster(inCluster), now);
    return { credentials, namespace: await inClusterNamespace(inCluster) };
  }
  throw new SwitchbackError("config-invalid", "connect needs a kubeconfig or a pod's service account");
}
