import { existsSync } from "node:fs";
import { join } from "node:path";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { createClient, type KubeClient } from "./client.ts";
import { explainConnection, placeOf } from "./connection-error.ts";
import {
  type Access,
  type Credentials,
  cachedCredentials,
  type InCluster,
  inClusterNamespace,
  loadInCluster,
  TOKEN_FILE,
} from "./credentials.ts";
import { loadKubeconfig } from "./kubeconfig.ts";
import { steadyNow } from "./time.ts";
import { createTransport } from "./transport.ts";

interface ConnectOptions {
  /** Path of a kubeconfig, or several separated as in KUBECONFIG. Takes precedence over `inCluster`. */
  kubeconfig?: string;
  /** The option or variable that names it, for messages. */
  setBy?: string;
  /** Context of the kubeconfig. Default: its current context. */
  context?: string;
  inCluster?: InCluster;
  userAgent?: string;
  /** A user to impersonate. It replaces the one in the kubeconfig. */
  as?: string;
  /** Default deadline of a call, milliseconds. */
  timeoutMs?: number;
  /** A monotonic clock, milliseconds. */
  now?: () => number;
}

/** The flags of a command that talks to an API server. */
export interface ConnectFlags {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  /** A user to impersonate. */
  readonly as?: string | undefined;
  /** Deadline of a request, seconds. */
  readonly requestTimeout?: number | undefined;
}

/** A client with its server and namespace. */
export interface ConnectedClient extends KubeClient {
  /** URL of the API server. */
  readonly server: string;
  /** The context of the kubeconfig; undefined in a pod. */
  readonly context: string | undefined;
  /** The namespace of the pod, or of the kubeconfig's context. */
  readonly namespace: string;
}

/** Only reads files. Does not open a connection yet. Throws `config-invalid` if a file cannot be read. */
export async function connect(options: ConnectOptions): Promise<ConnectedClient> {
  const { credentials, namespace } = await credentialsFor(options);
  const access = await credentials.current();
  const transport = createTransport(credentials, options.userAgent ?? "switchback");
  const client = createClient(
    {
      ...transport,
      send: (exchange) =>
        transport.send(exchange).catch((error: unknown) => {
          throw exchange.signal.aborted ? error : explainConnection(error, access);
        }),
    },
    { place: placeOf(access), ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }) },
  );
  const server = `${access.server.origin}${access.server.pathname}`;
  return { ...client, server, context: access.from?.context, namespace };
}

/**
 * Determines how to connect, from flags and environment. The order is: the kubeconfig of a flag, KUBECONFIG, the
 * pod's service account, `~/.kube/config`.
 */
export function connectOptionsFrom(
  env: Readonly<Record<string, string | undefined>>,
  flags: ConnectFlags = {},
): ConnectOptions {
  const { as, requestTimeout } = flags;
  const common = {
    ...(as === undefined ? {} : { as }),
    ...(requestTimeout === undefined ? {} : { timeoutMs: requestTimeout * 1000 }),
  };
  const context = { ...common, ...(flags.context === undefined ? {} : { context: flags.context }) };
  const named = flags.kubeconfig || env.KUBECONFIG;
  if (named) return { kubeconfig: named, setBy: flags.kubeconfig ? "--kubeconfig" : "KUBECONFIG", ...context };
  const host = env.KUBERNETES_SERVICE_HOST;
  if (host && isInPod(env)) return { inCluster: { host, port: env.KUBERNETES_SERVICE_PORT ?? "443" }, ...common };
  const home = env.HOME && join(env.HOME, ".kube", "config");
  if (home && existsSync(home)) return { kubeconfig: home, ...context };
  throw new SwitchbackError(
    "config-invalid",
    "no cluster configured: not in a pod, no --kubeconfig, no KUBECONFIG, no ~/.kube/config",
  );
}

/** Whether the process runs in a pod with a ServiceAccount token. */
export function isInPod(env: Readonly<Record<string, string | undefined>>): boolean {
  return Boolean(env.KUBERNETES_SERVICE_HOST) && existsSync(TOKEN_FILE);
}

async function credentialsFor(options: ConnectOptions): Promise<{ credentials: Credentials; namespace: string }> {
  const now = options.now ?? steadyNow;
  const { kubeconfig, inCluster, as } = options;
  const asUser = (access: Access): Access =>
    as === undefined ? access : { ...access, headers: { ...access.headers, "impersonate-user": as } };
  if (kubeconfig !== undefined) {
    let loaded = await loadKubeconfig(kubeconfig, options);
    const credentials = cachedCredentials(async (rejected) => {
      // Reload after a 401: the file may have changed, and reloading drops an exec plugin's cached token.
      if (rejected) loaded = await loadKubeconfig(kubeconfig, options);
      return asUser(await loaded.access());
    }, now);
    return { credentials, namespace: loaded.namespace };
  }
  if (inCluster !== undefined) {
    const credentials = cachedCredentials(async () => asUser(await loadInCluster(inCluster)), now);
    return { credentials, namespace: await inClusterNamespace(inCluster) };
  }
  throw new SwitchbackError("config-invalid", "a kubeconfig or a pod's service account is required");
}
