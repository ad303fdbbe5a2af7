import { existsSync } from "node:fs";
import type { RequestOptions } from "node:https";
import { delimiter } from "node:path";
import type { KubeConfig } from "@kubernetes/client-node";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { Access } from "./credentials.ts";

/** A parsed kubeconfig with its selected context. */
interface LoadedKubeconfig {
  /** Namespace of the context. Default: `default`. */
  namespace: string;
  /**
   * Reads certificate files again and runs the exec plugin for a token. The library caches the token until it
   * expires.
   */
  access(): Promise<Access>;
}

interface KubeconfigOptions {
  readonly context?: string | undefined;
  /** The option or variable that names the files. */
  readonly setBy?: string | undefined;
}

/**
 * Reads a kubeconfig with @kubernetes/client-node. `paths` may contain several files, separated as in KUBECONFIG.
 * Throws `config-invalid`.
 */
export async function loadKubeconfig(
  paths: string,
  { context, setBy = "kubeconfig" }: KubeconfigOptions = {},
): Promise<LoadedKubeconfig> {
  const config = await read(paths, setBy);
  const invalid = (text: string) => new SwitchbackError("config-invalid", `kubeconfig ${paths}: ${text}`);
  if (context !== undefined) config.setCurrentContext(context);
  const cluster = config.getCurrentCluster();
  const current = config.getContextObject(config.getCurrentContext());
  if (!cluster || !current) {
    const name = config.getCurrentContext() ?? "";
    throw invalid(`no context ${JSON.stringify(name)}; available: ${accepted(config.getContexts())}`);
  }
  const server = URL.parse(cluster.server);
  if (server === null || !/^https?:$/.test(server.protocol))
    throw invalid(`server ${JSON.stringify(cluster.server)} is not a URL such as https://10.0.0.1:6443`);
  if (current.user && config.getUser(current.user) === null) {
    throw invalid(`no user ${JSON.stringify(current.user)}; available: ${accepted(config.getUsers())}`);
  }
  // Without a user, the library would not use the CA.
  if (config.getCurrentUser() === null) config.addUser({ name: current.user });
  const from = {
    context: current.name,
    what: `context ${JSON.stringify(current.name)} of kubeconfig ${paths}`,
  };
  return {
    namespace: current.namespace ?? "default",
    access: async () => ({ ...(await toAccess(config, from.what, cluster)), server, from }),
  };
}

function accepted(known: ReadonlyArray<{ readonly name: string }>): string {
  return listSome(known, 6, ({ name }) => name) || "none";
}

/**
 * Loads the library, which is installed only on users' machines. It takes 80 MB and 0.4 s. The image does not include
 * it, because pods have a ServiceAccount.
 */
async function loadLibrary(paths: string): Promise<typeof KubeConfig> {
  try {
    return (await import("@kubernetes/client-node/dist/config.js")).KubeConfig;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new SwitchbackError(
      "config-invalid",
      `kubeconfig ${paths} cannot be read here: the package @kubernetes/client-node is not installed, and ` +
        "Switchback's image leaves it out. In a pod, leave out --kubeconfig and KUBECONFIG: the pod's ServiceAccount " +
        "is used. Otherwise run the command on a machine with all of its packages",
    );
  }
}

/**
 * Reads the files. As with kubectl, the first file that sets a value wins. Missing files are ignored if another one
 * exists.
 */
async function read(paths: string, setBy: string): Promise<KubeConfig> {
  const Config = await loadLibrary(paths);
  const files = paths.split(delimiter).filter((path) => path !== "" && existsSync(path));
  if (files.length === 0) throw new SwitchbackError("config-invalid", `${setBy} ${paths}: there is no such file`);
  const merged = new Config();
  try {
    for (const file of files) {
      const config = new Config();
      config.loadFromFile(file);
      merge(merged, config);
    }
  } catch (cause) {
    throw new SwitchbackError("config-invalid", `kubeconfig ${paths} cannot be read`, { cause });
  }
  return merged;
}

/** Adds the entries that `into` lacks. */
function merge(into: KubeConfig, from: KubeConfig): void {
  for (const each of from.clusters) if (into.getCluster(each.name) === null) into.addCluster(each);
  for (const each of from.users) if (into.getUser(each.name) === null) into.addUser(each);
  for (const each of from.contexts) if (into.getContextObject(each.name) === null) into.addContext(each);
  if (!into.getCurrentContext()) into.setCurrentContext(from.getCurrentContext());
}

/** Builds access from the context's user and cluster, as the library reads them. */
async function toAccess(
  config: KubeConfig,
  what: string,
  { proxyUrl }: { readonly proxyUrl?: string },
): Promise<Omit<Access, "server">> {
  const options: RequestOptions = {};
  try {
    await config.applyToHTTPSOptions(options);
  } catch (cause) {
    const command: unknown = config.getCurrentUser()?.exec?.command;
    const how = command === undefined ? "cannot be read" : `cannot be had from the command ${JSON.stringify(command)}`;
    throw new SwitchbackError("config-invalid", `the credentials of ${what} ${how}`, { cause });
  }
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) headers[name.toLowerCase()] = String(value);
  const { ca, cert, key, passphrase, servername, rejectUnauthorized } = options;
  const tls = { ca, cert, key, passphrase, servername, rejectUnauthorized };
  if (options.auth) headers.authorization = `Basic ${Buffer.from(options.auth).toString("base64")}`;
  return {
    headers,
    tls: Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined)) as Access["tls"],
    ...(proxyUrl !== undefined && typeof options.agent === "object" ? { agent: options.agent } : {}),
  };
}
