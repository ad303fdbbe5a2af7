import { existsSync } from "node:fs";
import type { RequestOptions } from "node:https";
import { delimiter } from "node:path";
import type { KubeConfig } from "@kubernetes/client-node";
import { SwitchbackError } from "../errors/errors.ts";
import type { Access } from "./credentials.ts";

/** A parsed kubeconfig with its selected context. */
interface LoadedKubeconfig {
  /** Namespace of the context; `default` if it has none. */
  namespace: string;
  /** Reads certificate files again and runs the exec plugin for a token; the library caches the token until it expires. */
  access(): Promise<Access>;
}

/**
 * Reads a kubeconfig. `paths` may contain several files, separated as in KUBECONFIG. Throws `config-invalid`.
 * The library is imported only here, on first use: it takes 88 MB of memory, which a pod does not need.
 */
export async function loadKubeconfig(paths: string, context?: string): Promise<LoadedKubeconfig> {
  const library = await import("@kubernetes/client-node");
  const config = read(paths, () => new library.KubeConfig());
  if (context !== undefined) config.setCurrentContext(context);
  const cluster = config.getCurrentCluster();
  const current = config.getContextObject(config.getCurrentContext());
  if (!cluster || !current) {
    const known = config.getContexts().map((each) => each.name);
    throw new SwitchbackError(
      "config-invalid",
      `kubeconfig ${paths}: no context ${JSON.stringify(config.getCurrentContext() ?? "")}; available: ${known.join(", ") || "none"}`,
    );
  }
  return {
    namespace: current.namespace ?? "default",
    access: () => toAccess(config, cluster.server, cluster.proxyUrl !== undefined),
  };
}

/** The first file that sets a value wins, as with kubectl. Missing files are ignored if another one exists. */
function read(paths: string, create: () => KubeConfig): KubeConfig {
  const named = paths.split(delimiter).filter((path) => path !== "");
  const present = named.filter((path) => existsSync(path));
  const files = present.length === 0 ? named : present;
  let merged: KubeConfig | undefined;
  try {
    for (const file of files) {
      const config = create();
      config.loadFromFile(file);
      if (merged === undefined) merged = config;
      else merge(merged, config);
    }
  } catch (cause) {
    throw new SwitchbackError("config-invalid", `kubeconfig ${paths} cannot be read`, { cause });
  }
  if (merged === undefined) throw new SwitchbackError("config-invalid", "no kubeconfig is given");
  return merged;
}

/** Adds entries that `into` does not have. (The library's merge throws on a duplicate name.) */
function merge(into: KubeConfig, from: KubeConfig): void {
  const missing = <T extends { name: string }>(have: T[], more: T[]) =>
    more.filter((each) => !have.some((known) => known.name === each.name));
  into.loadFromOptions({
    clusters: [...into.clusters, ...missing(into.clusters, from.clusters)],
    users: [...into.users, ...missing(into.users, from.users)],
    contexts: [...into.contexts, ...missing(into.contexts, from.contexts)],
    currentContext: into.getCurrentContext() || from.getCurrentContext(),
  });
}

async function toAccess(config: KubeConfig, server: string, proxied: boolean): Promise<Access> {
  const options: RequestOptions = {};
  try {
    await config.applyToHTTPSOptions(options);
  } catch (cause) {
    throw new SwitchbackError("config-invalid", `the credentials of context ${config.getCurrentContext()} failed`, {
      cause,
    });
  }
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) headers[name.toLowerCase()] = String(value);
  if (options.auth) headers.authorization = `Basic ${Buffer.from(options.auth).toString("base64")}`;
  return {
    server: new URL(server),
    headers,
    tls: pickTls(options),
    ...(proxied && typeof options.agent === "object" ? { agent: options.agent } : {}),
  };
}

function pickTls(options: RequestOptions): Access["tls"] {
  const { ca, cert, key, passphrase, servername, rejectUnauthorized } = options;
  const given = { ca, cert, key, passphrase, servername, rejectUnauthorized };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Access["tls"];
}
